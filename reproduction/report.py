"""One page from a folder of results: every item of the paper, ours beside the paper's, with nothing left out.

Tables and figures are made anew from the result files that exist, so that a report can be made at any time; what does
not exist is listed as missing, with the command that makes it. Runs of ``full`` come before those of ``smoke``.
"""

from __future__ import annotations

import base64
import io
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from matplotlib import rc_context
from matplotlib.figure import Figure

from hyperfront.comparison.result import Result, load_folder
from hyperfront.comparison.table import summarize, without_scores
from hyperfront.plots.static import STYLE
from reproduction import page
from reproduction.deviations import DEVIATIONS
from reproduction.item_result import Claim, Finding, Table
from reproduction.items import ITEMS, Item
from reproduction.reproduce import command
from reproduction.store import PRESETS, Workshop

PAPER = "https://arxiv.org/abs/2010.04104"


@dataclass(frozen=True)
class Section:
    """An item as it stands in a folder."""

    name: str
    item: Item
    preset: str | None
    """Of the runs it was made from; None where there are none."""
    finding: Finding

    @property
    def state(self) -> str:
        if self.preset is None:
            return "missing"
        if self.preset == "smoke" and self.item.trains:
            return "smoke"
        return "partial" if self.finding.missing else "complete"


def collect(folder: Path) -> list[Section]:
    """Every item, from the results in the folder."""
    workshops = {preset: Workshop(folder, preset, train=False) for preset in PRESETS}
    return [_section(name, item, workshops) for name, item in ITEMS.items()]


def _section(name: str, item: Item, workshops: dict[str, Workshop]) -> Section:
    for preset, workshop in workshops.items():
        finding = item.make(workshop)
        if not finding.empty:
            return Section(name, item, preset, finding)
    return Section(name, item, None, item.make(workshops[PRESETS[0]]))


def report(folder: Path) -> str:
    """The page."""
    sections = collect(folder)
    loose = load_folder(folder, without="studies")  # of `hyperfront train --result`
    results = [*load_folder(folder / "full"), *loose]
    parts = {
        "overview": ("Overview", [*_overview(sections), *_notes(folder)]),
        "claims": ("What it shows", _claims(sections)),
        **{each.name: (_title(each.name), _item(each)) for each in sections},
        "departures": ("Departures from the paper", _departures(sections)),
        "runs": ("All runs", _runs(results)),
        "environment": ("Environment", _environment(sections, results)),
        "again": ("How to reproduce", _again()),
    }
    return page.page("Learning the Pareto front with hypernetworks: a reproduction", parts)


def _title(name: str) -> str:
    """``"table-1"`` as ``"Table 1"``."""
    return {"appendix-b2": "Appendix B.2", "deviations": "Effects"}.get(name, name.replace("-", " ").capitalize())


def _overview(sections: list[Section]) -> Iterator[str]:
    count = Counter(each.state for each in sections)
    yield page.paragraph(
        "Every table and figure of Navon, Shamsian, Fetaya & Chechik, “Learning the Pareto Front with Hypernetworks” "
        "(ICLR 2021), made with hyperfront. Columns called “paper” hold the numbers of the paper; all others were "
        "measured here, on test data unless said, with the models that validation data chose (the last ones, where no "
        "validation point is below the reference, and for toys); +- is the standard deviation over seeds. Uniformity "
        "has the natural logarithm.",
        link=("The paper", PAPER),
    )
    yield page.paragraph(
        f"{len(sections)} items: {count['complete']} complete, {count['partial']} in part, {count['smoke']} as a smoke "
        f"test only (its numbers mean nothing), {count['missing']} missing."
    )
    rows = [(each.name, each.item.what, each.state, f"{len(each.finding.missing) or ''}") for each in sections]
    yield page.table(Table("Items", ("item", "what it shows", "state", "parts missing"), rows), link_first=True)


def _notes(folder: Path) -> Iterator[str]:
    """What whoever made the results has to say about them, in ``notes.md``: paragraphs of plain text."""
    file = folder / "notes.md"
    texts = file.read_text().split("\n\n") if file.exists() else []
    yield from (page.paragraph(" ".join(text.split()), kind="warning") for text in texts)


def _claims(sections: list[Section]) -> Iterator[str]:
    claims = [(each, claim) for each in sections if each.state != "smoke" for claim in each.finding.claims]
    if not claims:
        yield page.paragraph("Nothing yet: claims are checked on full runs.")
        return
    yield page.paragraph(
        "What the paper says, or what should be seen, and whether it is so here. Close: two means are apart by less "
        "than the sum of their standard deviations over seeds, or with one seed each by less than 3 %; ten times as "
        "fast, if 1 % of hypervolume would change it. Open: the numbers do not say."
    )
    count = Counter((claim.kind, claim.side) for _, claim in claims)
    verdicts = ("yes", "close, ahead", "close, behind", "no", "open")
    kinds = sorted({claim.kind for _, claim in claims}, key=lambda kind: (kind == Claim.kind, kind))
    short = [(kind, *(str(count[kind, verdict]) for verdict in verdicts)) for kind in kinds]
    yield page.table(Table("In short", ("statements", *verdicts), short))
    rows = [(each.name, claim.text, claim.verdict, claim.numbers) for each, claim in claims]
    yield page.table(Table("Claims", ("item", "claim", "holds", "numbers"), rows), link_first=True, stacked=True)


def _item(section: Section) -> Iterator[str]:
    finding = section.finding
    yield page.lead(section.item.what[0].upper() + section.item.what[1:] + ".", section.state)
    if section.state == "smoke":
        yield page.paragraph("From a smoke test, which shows that it runs: the numbers mean nothing.", kind="warning")
    if finding.figure is not None and section.preset is not None:
        yield page.figure(svg(finding.figure), f"{_title(section.name)}: {section.item.what}")
    yield from (page.table(table) for table in finding.tables if table.rows)
    if finding.claims and section.state != "smoke":
        yield page.claims(finding.claims)
    yield from (page.paragraph(remark) for remark in finding.remarks if section.preset is not None)
    if finding.missing:
        yield page.folded(f"{len(finding.missing)} missing", page.items(finding.missing))
    if section.item.deviations:
        known = [f"{name}. {DEVIATIONS[name]}" for name in section.item.deviations]
        yield page.folded("What differs from the paper", page.items(known))
    yield page.command(command(section.name, "full", finding))


def _departures(sections: list[Section]) -> Iterator[str]:
    (measured,) = (each for each in sections if each.name == "deviations")
    known = measured.finding.numbers.get("effects", {}) if measured.state != "smoke" else {}
    yield page.paragraph(
        "What each does to hypervolume / uniformity is beside it, where it can be and was measured: the means of the "
        "section Effects, of PHN-EPO unless a method is named."
    )
    rows = [(name, each.paper, each.here, each.why, known.get(name, "")) for name, each in DEVIATIONS.items()]
    yield page.table(Table("Departures", ("name", "the paper", "here", "why", "effect"), rows), stacked=True)


def _runs(results: list[Result]) -> Iterator[str]:
    if not results:
        yield page.paragraph("No results of the preset full.")
        return
    yield page.paragraph(
        "Every result of `full`: what the items above are made from, and what `hyperfront train --result` wrote. "
        "“Of attainable” compares the uniformity with the best that a non-dominated point of any run has at the same "
        "ray. Seconds are as spent, beside other runs; those in the tables above were measured alone. Scores are in "
        "the table of `hyperfront results --markdown`."
    )
    yield page.table(Table(f"{len(results)} files", *without_scores(summarize(results))))


def _environment(sections: list[Section], results: list[Result]) -> Iterator[str]:
    """Each environment once, with the commits of its results."""
    columns = ("device", "torch", "products", "numpy", "python", "cores", "threads", "platform")
    timed = [environment for section in sections for environment in section.finding.timed]
    commits: dict[tuple[str, ...], Counter[str]] = {}
    for environment in [*(result.environment for result in results), *timed]:
        git = environment.get("git") or "unknown"
        short = git[:7] + ("+" if git.endswith("-dirty") else "")
        commits.setdefault(tuple(str(environment.get(c, "-")) for c in columns), Counter())[short] += 1
    if not commits:
        yield page.paragraph("No results.")
        return
    rows = [(str(number), *where) for number, where in enumerate(commits, 1)]
    yield page.paragraph(
        "Products with the precision “high” round their factors to TF32 on a GPU (`--tf32`). Commits of the project "
        "have their number of files; + says that something in the checkout had not been committed, and unknown that "
        "there was none."
    )
    yield page.table(Table("Where the results and times were made", ("number", *columns), rows), stacked=True)
    known = (
        f"{number}: " + ", ".join(f"{commit} ({count})" for commit, count in each.most_common())
        for number, each in enumerate(commits.values(), 1)
    )
    yield page.folded("Commits", page.items(known))


def _again() -> Iterator[str]:
    yield page.paragraph(
        "With a checkout of the project, Python 3.11 or newer and a GPU; without one, `--preset smoke` shows in a "
        "minute or two that everything runs. What is finished is not run again, and after an interruption the same "
        "command goes on."
    )
    yield page.command(
        "pip install -c constraints.txt -e '.[data,compare]'\nhyperfront data list\npython -m reproduction list\n"
        "python -m reproduction make all --preset full --tf32\npython -m reproduction report"
    )


def svg(figure: Figure) -> str:
    """The figure as a data address."""
    buffer = io.BytesIO()
    with rc_context(STYLE):
        figure.savefig(buffer, format="svg", metadata={"Date": None})
    return "data:image/svg+xml;base64," + base64.b64encode(buffer.getvalue()).decode()
