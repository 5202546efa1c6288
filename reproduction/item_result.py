"""What an item of the paper came to: tables, claims that hold or do not, a figure, and the numbers behind it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from statistics import fmean, stdev
from typing import Any

from matplotlib.figure import Figure

from hyperfront.comparison.table import spread
from hyperfront.storage.markdown import as_markdown


@dataclass(frozen=True)
class Table:
    """Cells are texts; a row has one for each column. In a column called "paper" are the paper's numbers."""

    title: str
    columns: tuple[str, ...]
    rows: Sequence[tuple[str, ...]]

    def markdown(self) -> str:
        return f"**{self.title}**\n\n{as_markdown(self.columns, self.rows)}"


@dataclass(frozen=True)
class Claim:
    """What the paper says or the item should show, whether it does here, and by which numbers."""

    text: str
    holds: bool | None
    """None where the numbers do not say."""
    numbers: str
    close: bool = False
    """Whether other seeds might have said otherwise."""
    kind: str = "others"
    """What it is about, where many are about the same."""

    @property
    def verdict(self) -> str:
        return "open" if self.holds is None else "close" if self.close else "yes" if self.holds else "no"

    @property
    def side(self) -> str:
        """The verdict, and of a close one which side it is on."""
        return self.verdict + (f", {'ahead' if self.holds else 'behind'}" if self.verdict == "close" else "")


def above(text: str, ours: Sequence[float], theirs: Sequence[float], whose: str, *, kind: str = Claim.kind) -> Claim:
    """Whether the mean of ``ours`` is above that of ``theirs``; close if by less than both deviate over seeds. What
    rests on one seed, which does not deviate, says so; of one seed each, 3 % is close, since so much can lie between a
    run and the same one made again.

    >>> above("more", [0.9, 1.1], [0.5, 0.5], "LS").verdict, above("more", [0.9, 1.1], [0.95, 0.85], "LS").verdict
    ('yes', 'close')
    >>> above("more", [0.9], [0.8], "LS").numbers, above("more", [0.81], [0.8], "LS").verdict
    ('0.900 against 0.800 of LS; one seed', 'close')
    """
    apart = fmean(ours) - fmean(theirs)
    deviation = sum(stdev(values) for values in (ours, theirs) if len(values) > 1)
    deviation = 0.03 * abs(fmean(theirs)) if len(ours) == len(theirs) == 1 else deviation
    numbers = f"{spread(ours)} against {spread(theirs)} of {whose}"
    single = "; one seed" if 1 in (len(ours), len(theirs)) else ""
    return Claim(text, apart > 0, numbers + single, abs(apart) < deviation, kind)


@dataclass
class Finding:
    """Everything that was found for an item; ``missing`` says what was not there to be looked at."""

    tables: list[Table] = field(default_factory=list)
    figure: Figure | None = None
    claims: list[Claim] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    numbers: dict[str, Any] = field(default_factory=dict)
    missing: list[str] = field(default_factory=list)
    environments: list[dict[str, Any]] = field(default_factory=list)
    timed: list[dict[str, Any]] = field(default_factory=list)
    """Environments of the times in it, if it has some."""

    @property
    def empty(self) -> bool:
        """Whether nothing of it was there."""
        return bool(self.missing) and not self.environments

    @property
    def remarks(self) -> list[str]:
        """Notes, and one more where times cannot be compared."""
        devices = [*dict.fromkeys(str(each.get("device")) for each in self.timed)]
        where = f"Times are of different devices: {', '.join(devices)}."
        return self.notes + [where] * (len(devices) > 1)

    def document(self) -> dict[str, Any]:
        """As JSON, without the figure."""
        return {
            "tables": [asdict(table) for table in self.tables],
            "claims": [asdict(claim) for claim in self.claims],
            "notes": self.remarks,
            "numbers": self.numbers,
            "missing": self.missing,
            "environments": [e for i, e in enumerate(self.environments) if e not in self.environments[:i]],
        }

    def markdown(self) -> str:
        """Tables, claims and notes."""
        parts = [table.markdown() for table in self.tables]
        parts += ["\n".join(f"- {claim.verdict}: {claim.text}: {claim.numbers}" for claim in self.claims)]
        parts += ["\n".join(f"- {remark}" for remark in self.remarks)]
        parts += ["Missing: " + ", ".join(self.missing)] if self.missing else []
        return "\n\n".join(part for part in parts if part) + "\n"


def missing_seeds(what: str, found: int, wanted: int) -> list[str]:
    """What is missing of the seeds of ``what``, in a line, if anything is.

    >>> missing_seeds("Adult: ls", 1, 3), missing_seeds("Adult: ls", 0, 3), missing_seeds("Adult: ls", 3, 3)
    (['Adult: ls, 2 of 3 seeds'], ['Adult: ls'], [])
    """
    return [what + (f", {wanted - found} of {wanted} seeds" if found else "")] if found < wanted else []


def shown(value: float | None, digits: int = 3) -> str:
    """A number of the paper, or a dash.

    >>> shown(2.7, 2), shown(None)
    ('2.70', '-')
    """
    return "-" if value is None else f"{value:,.{digits}f}"
