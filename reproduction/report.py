"""One page from a folder of results: every item of the paper, ours beside the paper's.

Tables and figures are made from the result files that exist, so that a report can be made at any time. Items whose
``full`` version has no results yet are shown as smoke tests, if those exist. ``report.html`` is the template.
"""

from __future__ import annotations

import base64
import io
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader
from markupsafe import Markup, escape
from matplotlib import rc_context
from matplotlib.figure import Figure

from hyperfront.comparison.result import load_folder
from hyperfront.comparison.table import summarize, without_scores
from hyperfront.plots.static import STYLE
from reproduction.deviations import DEVIATIONS, deviations_of
from reproduction.item_result import Claim, ItemResult, Table
from reproduction.items import ITEMS, Item
from reproduction.reproduce import command
from reproduction.store import PRESETS, Store

VERDICTS = ("yes", "close, ahead", "close, behind", "no", "open")
WHERE = ("device", "torch", "products", "numpy", "python", "cores", "threads", "platform")


@dataclass(frozen=True)
class Section:
    """An item, with its results in a folder."""

    name: str
    item: Item
    preset: str
    found: ItemResult

    @property
    def title(self) -> str:
        names = {"appendix-b2": "Appendix B.2", "deviations": "Effects"}
        return names.get(self.name, self.name.replace("-", " ").capitalize())

    @property
    def state(self) -> str:
        if not self.found.environments and self.found.missing:
            return "missing"
        if self.preset == "smoke" and self.item.trains:
            return "smoke"
        return "partial" if self.found.missing else "complete"

    @property
    def claims(self) -> list[Claim]:
        return [] if self.state == "smoke" else self.found.claims

    @property
    def deviations(self) -> list[str]:
        return [f"{name}. {each}" for name, each in deviations_of(self.name).items()]

    @property
    def command(self) -> str:
        return command(self.name, "full", self.found)

    @property
    def figure(self) -> str | None:
        return svg(self.found.figure) if self.found.figure and self.state != "missing" else None


def collect(folder: Path) -> list[Section]:
    """Every item, from the results in the folder."""
    found = []
    for name, item in ITEMS.items():
        stores = (Store(folder, preset, train=False) for preset in PRESETS)
        sections = [Section(name, item, store.preset, item.make(store)) for store in stores if _exists(store)]
        sections = sections or [Section(name, item, "full", item.make(Store(folder, "full", train=False)))]
        found.append(next((each for each in sections if each.state != "missing"), sections[0]))
    return found


def _exists(store: Store) -> bool:
    return (store.out / store.preset).is_dir()


def report(folder: Path) -> str:
    """The page."""
    sections = collect(folder)
    results = [*load_folder(folder / "full"), *load_folder(folder, without="studies")]  # also of `hyperfront train`
    environments = [result.environment for result in results] + [e for each in sections for e in each.found.timed]
    notes = folder / "notes.md"
    template = Environment(
        loader=FileSystemLoader(Path(__file__).parent), autoescape=True, trim_blocks=True, lstrip_blocks=True
    )
    template.filters["text"] = text
    return template.get_template("report.html").render(
        style=Markup((Path(__file__).parent / "page.css").read_text()),
        sections=sections,
        states=Counter(each.state for each in sections),
        notes=[" ".join(part.split()) for part in notes.read_text().split("\n\n")] if notes.exists() else [],
        in_short=_in_short([claim for each in sections for claim in each.claims]),
        departures=_departures(next(each for each in sections if each.name == "deviations")),
        runs=Table(f"{len(results)} files", *without_scores(summarize(results))) if results else None,
        commits=_commits(environments),
        where=WHERE,
    )


def text(plain: str) -> Markup:
    """Escape a text; mark code between backquotes, and write +- as one sign.

    >>> text("1 +- 2 < `x`")
    Markup('1 ± 2 &lt; <code>x</code>')
    """
    first, *rest = str(escape(plain)).replace("+-", "±").split("`")
    return Markup(first + "".join(f"<code>{part}</code>" if i % 2 == 0 else part for i, part in enumerate(rest)))


def _in_short(claims: Sequence[Claim]) -> Table:
    """Count the verdicts on the claims of each kind."""
    side = {True: ", ahead", False: ", behind", None: ""}
    count = Counter((c.kind, c.verdict + (side[c.holds] if c.verdict == "close" else "")) for c in claims)
    kinds = sorted({claim.kind for claim in claims}, key=lambda kind: (kind == Claim.kind, kind))
    rows = [(kind, *(str(count[kind, verdict]) for verdict in VERDICTS)) for kind in kinds]
    return Table("In short", ("statements", *VERDICTS), rows)


def _departures(measured: Section) -> Table:
    effects = {} if measured.state == "smoke" else measured.found.numbers.get("effects", {})
    rows = [(name, each.paper, each.here, each.why, effects.get(name, "")) for name, each in DEVIATIONS.items()]
    return Table("Departures", ("name", "the paper", "here", "why", "effect"), rows)


def _commits(environments: Sequence[Mapping[str, Any]]) -> dict[tuple[str, ...], Counter[str]]:
    """Each environment once, with the number of files of every commit."""
    commits: dict[tuple[str, ...], Counter[str]] = {}
    for environment in environments:
        git = environment.get("git") or "unknown"
        short = git[:7] + ("+" if git.endswith("-dirty") else "")
        commits.setdefault(tuple(str(environment.get(name, "-")) for name in WHERE), Counter())[short] += 1
    return commits


def svg(figure: Figure) -> str:
    """The figure as a data address."""
    buffer = io.BytesIO()
    with rc_context(STYLE):
        figure.savefig(buffer, format="svg", metadata={"Date": None})
    return "data:image/svg+xml;base64," + base64.b64encode(buffer.getvalue()).decode()
