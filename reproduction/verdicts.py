"""Which statements of the paper hold here: each is judged on the tables that its items show.

A judge takes the document of an item (``data.json``) and answers with one word for each case, such as a hypernetwork on
a data set: yes, no, close (the difference is smaller than the spread), or open (too few models were trained to tell).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from reproduction.item_result import verdict

Document = Mapping[str, Any]
Row = Sequence[str]
HYPERNETWORK = "PHN"
ON_FRONT, ON_RAY = 1e-3, 0.99
"""The largest distance to a known front, and the least uniformity, that count as reached."""


@dataclass(frozen=True)
class Statement:
    """A statement of the paper, the items that show it, and its judge."""

    says: str
    items: tuple[str, ...]
    judge: Callable[[Document], Iterator[str]]


@dataclass(frozen=True)
class Finding:
    """How a statement fared: the words of all cases, counted."""

    says: str
    items: tuple[str, ...]
    cases: Counter[str]

    @property
    def holds(self) -> str:
        """Whether the statement holds: yes (in every case), in part (in some), no (in none, and it fails in some), or
        undecided.
        """
        right, wrong = self.cases["yes"], self.cases["no"]
        return ("yes" if right == self.cases.total() else "in part") if right else "no" if wrong else "undecided"


def findings(documents: Mapping[str, Document]) -> list[Finding]:
    """The findings on the statements whose items are all there, best first."""
    made = [each for each in STATEMENTS if all(item in documents for item in each.items)]
    found = [
        Finding(each.says, each.items, Counter(word for item in each.items for word in each.judge(documents[item])))
        for each in made
    ]
    return sorted(found, key=lambda finding: ("yes", "in part", "undecided", "no").index(finding.holds))


def _number(cell: str) -> float:
    """The number at the start of a cell.

    >>> _number("2.774 +- 0.013"), _number("> 1,200")
    (2.774, 1200.0)
    """
    return float(cell.removeprefix("> ").partition(" ")[0].replace(",", ""))


def _spread(*cells: str) -> float:
    """The sum of the deviations of two cells; 3 % of the second if both have one seed."""
    deviations = [float(cell.partition(" +- ")[2]) for cell in cells if " +- " in cell]
    return sum(deviations) if deviations else 0.03 * abs(_number(cells[-1]))


def _above(ours: str, theirs: str) -> str:
    return verdict(_number(ours), _number(theirs), _spread(ours, theirs))


def _not_below(ours: str, theirs: str) -> str:
    return "no" if _above(ours, theirs) == "no" else "yes"


def _tables(document: Document, *columns: str) -> Iterator[tuple[list[str], list[Row]]]:
    """The columns and rows of the tables with these columns."""
    for table in document["tables"]:
        if set(columns) <= set(table["columns"]):
            yield list(table["columns"]), table["rows"]


def known_fronts(document: Document) -> Iterator[str]:
    """PHN-EPO is on the front and on every ray."""
    for columns, rows in _tables(document, "largest distance"):
        distance, uniformity = columns.index("largest distance"), columns.index("least uniformity")
        for row in rows:
            if row[1].startswith(HYPERNETWORK):
                yield "yes" if _number(row[distance]) < ON_FRONT and _number(row[uniformity]) > ON_RAY else "no"


def larger(document: Document) -> Iterator[str]:
    """Hypernetworks against the best baseline of any learning rate."""
    for columns, rows in _tables(document, "above"):
        yield from (row[columns.index("above")] for row in rows)


def larger_as_paper(document: Document) -> Iterator[str]:
    """Hypernetworks against the best baseline with its first learning rate, at the same rays."""
    for columns, rows in _tables(document, "method", "one by one"):
        rays, volume = columns.index("rays"), columns.index("HV")
        baselines = [
            row[volume] for row in rows if "," not in row[0] and row[rays] != "-" and HYPERNETWORK not in row[0]
        ]
        if baselines:
            best = max(baselines, key=_number)
            yield from (_above(row[volume], best) for row in rows if row[0].endswith(", same rays"))


def faster(document: Document) -> Iterator[str]:
    """Seconds of a hypernetwork against those of the fastest baseline."""
    for columns, rows in _tables(document, "method", "one by one"):
        seconds = columns.index("seconds")
        timed = [
            (row[0].startswith(HYPERNETWORK), _number(row[seconds])) for row in rows if row[seconds] not in ("", "-")
        ]
        if baselines := [time for own, time in timed if not own]:
            yield from ("yes" if time < min(baselines) else "no" for own, time in timed if own)


def ten_times(document: Document) -> Iterator[str]:
    """Separate models take ten times as long for the same hypervolume; open if even all of them stay below it."""
    for _, rows in _tables(document, "times as long"):
        for row in rows:
            short = "open" if row[-1].startswith(">") else "no"
            yield "yes" if _number(row[-1]) >= 10 else short


def tenth(document: Document) -> Iterator[str]:
    """Hypernetworks with a tenth of the parameters against the best baseline at the same rays."""
    for _, rows in _tables(document, "HV, same rays"):
        for problem in dict.fromkeys(row[0] for row in rows):
            own = [row for row in rows if row[0] == problem]
            best = max((row for row in own if HYPERNETWORK not in row[1]), key=lambda row: _number(row[5]))
            small = [row for row in own if HYPERNETWORK in row[1] and _number(row[2]) <= _number(best[2]) / 10]
            yield from (_above(row[5], best[5]) for row in small)


def alphas(document: Document) -> Iterator[str]:
    """No alpha is below the best one by more than the spread."""
    for _, rows in _tables(document, "setting"):
        volumes = [row[3] for row in rows if row[0] == "alpha"]
        yield from (_not_below(volume, max(volumes, key=_number)) for volume in volumes)


def widths(document: Document) -> Iterator[str]:
    """The hidden dimension 100 against every other one."""
    for _, rows in _tables(document, "setting"):
        volumes = {row[1]: row[3] for row in rows if row[0] == "hidden dimension"}
        yield from (_above(volumes["100"], volume) for width, volume in volumes.items() if width != "100")


def unseen(document: Document) -> Iterator[str]:
    """Rays that were never trained on are not below the others."""
    for columns, rows in _tables(document, "test rays"):
        volume = columns.index("HV")
        yield from (_not_below(new[volume], seen[volume]) for seen, new in zip(rows[::2], rows[1::2]))


def pixels(document: Document) -> Iterator[str]:
    """The pixels of the left digit speak for its class at the first ray, those of the right digit at the last one."""
    for _, rows in _tables(document, "to the left class"):
        yield "yes" if _number(rows[0][2]) > 0.5 else "no"
        yield "yes" if _number(rows[-1][4]) < 0.5 else "no"


def as_the_paper(document: Document) -> Iterator[str]:
    """The hypervolume is at most 3 % below that of the paper."""
    for columns, rows in _tables(document, "HV at all rays"):
        volume, paper = columns.index("HV"), columns.index("paper")
        yield from ("yes" if _number(row[volume]) >= 0.97 * _number(row[paper]) else "no" for row in rows)


COMPARED = ("table-1", "table-2", "table-3", "table-4")
STATEMENTS = (
    Statement("PHN-EPO is on the known fronts and on every ray", ("figure-1", "figure-8"), known_fronts),
    Statement("A hypernetwork trains in less time than the fastest set of separate models", COMPARED, faster),
    Statement("Rays that were never trained on cost no hypervolume", ("appendix-b2",), unseen),
    Statement("The ray decides which digit's pixels speak for a class", ("figure-9",), pixels),
    Statement("The hypervolume hardly depends on Dirichlet's alpha", ("figure-10",), alphas),
    Statement("The best hidden dimension is 100", ("figure-10",), widths),
    Statement("Hypernetworks reach the paper's hypervolumes, up to 3 %", ("table-6",), as_the_paper),
    Statement("Separate models of the same hypervolume take ten times as long", ("figure-5", "figure-11"), ten_times),
    Statement("A tenth of the parameters gives a larger hypervolume (ResNet18)", ("figure-6",), tenth),
    Statement(
        "Hypernetworks have a larger hypervolume than baselines with their first learning rate",
        COMPARED,
        larger_as_paper,
    ),
    Statement("Hypernetworks have a larger hypervolume than baselines with their best learning rate", COMPARED, larger),
)
