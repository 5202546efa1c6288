"""One page from a folder of results: every item of the paper, ours beside the paper's.

The page has the files that ``python -m reproduction make`` wrote. ``report.html`` is the template.
"""

from __future__ import annotations

import base64
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader
from markupsafe import Markup, escape

from hyperfront.comparison.result import load_folder
from hyperfront.comparison.table import summarize, without_scores
from hyperfront.storage import files
from reproduction.item_result import Claim, Table
from reproduction.items import ITEMS
from reproduction.paper import DEVIATIONS

TITLES = {"appendix-b2": "Appendix B.2", "deviations": "Effects"}
VERDICTS = ("yes", "close, ahead", "close, behind", "no", "open")
WHERE = ("device", "torch", "products", "numpy", "python", "cores", "threads", "platform")


def report(folder: Path) -> str:
    """The page."""
    sections = [_section(folder / "full", name) for name in ITEMS]
    results = [*load_folder(folder / "full"), *load_folder(folder, without="studies")]  # also of `hyperfront train`
    times = [files.read_json(file) for file in sorted(folder.glob("full/studies/*/times/*.json"))]
    notes = folder / "notes.md"
    place = Path(__file__).parent
    template = Environment(loader=FileSystemLoader(place), autoescape=True, trim_blocks=True, lstrip_blocks=True)
    template.filters["text"] = text
    return template.get_template("report.html").render(
        style=Markup((place / "page.css").read_text()),
        sections=sections,
        made=sum("tables" in each for each in sections),
        notes=[" ".join(part.split()) for part in notes.read_text().split("\n\n")] if notes.exists() else [],
        in_short=_in_short([claim for each in sections for claim in each["claims"]]),
        departures=DEVIATIONS,
        runs=Table(f"{len(results)} files", *without_scores(summarize(results))) if results else None,
        commits=_commits([*(result.environment for result in results), *(each["environment"] for each in times)]),
        where=WHERE,
    )


def _section(folder: Path, name: str) -> dict[str, Any]:
    """An item with the contents of its files; one that was not made has its name and its command."""
    data, figure = folder / name / "data.json", folder / name / "figure.svg"
    title = TITLES.get(name, name.replace("-", " ").capitalize())
    section = {"name": name, "title": title, "what": ITEMS[name].what, "claims": []}
    section["command"] = f"python -m reproduction make {name} --preset full"
    if data.exists():
        section |= files.read_json(data)
        section["claims"] = [Claim(**each) for each in section["claims"]]
    if figure.exists():
        section["figure"] = "data:image/svg+xml;base64," + base64.b64encode(figure.read_bytes()).decode()
    return section


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


def _commits(environments: Sequence[Mapping[str, Any]]) -> dict[tuple[str, ...], Counter[str]]:
    """Each environment once, with the number of files of every commit."""
    commits: dict[tuple[str, ...], Counter[str]] = {}
    for environment in environments:
        git = environment.get("git") or "unknown"
        short = git[:7] + ("+" if git.endswith("-dirty") else "")
        commits.setdefault(tuple(str(environment.get(name, "-")) for name in WHERE), Counter())[short] += 1
    return commits
