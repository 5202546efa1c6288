"""One page from a folder of results: what holds, and every item that was made, ours beside the paper's.

The page has the files that ``python -m reproduction make`` wrote. ``report.html`` is the template.
"""

from __future__ import annotations

import base64
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader
from markupsafe import Markup, escape

from hyperfront.comparison.result import load_folder
from hyperfront.comparison.table import summarize, without_scores
from hyperfront.storage import files
from reproduction.item_result import Table
from reproduction.items import FORMAT, ITEMS
from reproduction.paper import DEVIATIONS
from reproduction.verdicts import Finding, findings

TITLES = {"appendix-b2": "Appendix B.2", "deviations": "Effects"}
OTHERS = {"in part": "in part", "undecided": "undecided", "no": "not"}
WHERE = ("device", "torch", "products", "numpy", "python", "cores", "threads", "platform")


def report(folder: Path) -> str:
    """The page."""
    results = [*load_folder(folder / "full"), *load_folder(folder, without="studies")]  # also of `hyperfront train`
    times = [files.read_json(file) for file in sorted(folder.glob("full/studies/*/times/*.json"))]
    environments = [*(result.environment for result in results), *(each["environment"] for each in times)]
    count = Counter(tuple(str(each.get(name, "-")) for name in WHERE) for each in environments)
    notes = folder / "notes.md"
    place = Path(__file__).parent
    template = Environment(loader=FileSystemLoader(place), autoescape=True, trim_blocks=True, lstrip_blocks=True)
    template.filters["text"] = text
    sections = [_section(folder / "full" / name) for name in ITEMS if (folder / "full" / name).is_dir()]
    found = findings({section["item"]: section for section in sections})
    return template.get_template("report.html").render(
        style=Markup((place / "page.css").read_text()),
        sections=sections,
        titles={section["item"]: section["title"] for section in sections},
        findings=found,
        tally=_tally(found),
        notes=[" ".join(part.split()) for part in notes.read_text().split("\n\n")] if notes.exists() else [],
        departures=DEVIATIONS,
        runs=Table(f"{len(results)} files", *without_scores(summarize(results))) if results else None,
        where=Table("Where the files were made", ("files", *WHERE), [(str(n), *k) for k, n in count.items()]),
    )


def _section(folder: Path) -> dict[str, Any]:
    """An item with the contents of its files."""
    figure, data = folder / "figure.svg", folder / "data.json"
    section = FORMAT.upgrade(files.read_json(data), data)
    if figure.exists():
        section["figure"] = "data:image/svg+xml;base64," + base64.b64encode(figure.read_bytes()).decode()
    name = section["item"]
    return section | {"title": TITLES.get(name, name.replace("-", " ").capitalize())}


def _tally(found: Sequence[Finding]) -> str:
    """How many statements hold."""
    count = Counter(finding.holds for finding in found)
    others = [f"{count[word]} {shown}" for word, shown in OTHERS.items() if count[word]]
    return "; ".join(
        [f"{count['yes']} of {len(found)} statements of the paper", *([", ".join(others)] if others else [])]
    )


def text(plain: str) -> Markup:
    """Escape a text; mark code between backquotes, and write +- as one sign.

    >>> text("1 +- 2 < `x`")
    Markup('1 ± 2 &lt; <code>x</code>')
    """
    first, *rest = str(escape(plain)).replace("+-", "±").split("`")
    return Markup(first + "".join(f"<code>{part}</code>" if i % 2 == 0 else part for i, part in enumerate(rest)))
