"""``hyperfront results``: the table of a folder of result files."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import tyro
from rich.table import Table

from hyperfront.cli.output import console
from hyperfront.errors import HyperfrontError
from hyperfront.experiments.result import FORMAT, Result
from hyperfront.experiments.table import COLUMNS, summarise


def results(
    folder: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="FOLDER")] = Path("results"),
    *,
    markdown: bool = False,
) -> None:
    """Print a table of the result files that `hyperfront train --result FILE` wrote.

    Hypervolume and uniformity (natural log) are of the test data, at the problem's rays, for the model that validation
    chose; mean and standard deviation over seeds. "Of attainable" compares the uniformity at each ray with the best
    that a non-dominated point of any of the results for that problem reaches there.

    Args:
        folder: Where the files are, at any depth.
        markdown: Print the table as Markdown, with the best scores over the rays as well.
    """
    found = (file for file in sorted(folder.rglob("*.json")) if "studies" not in file.parts)  # `report` shows those
    files = [file for file in found if FORMAT in file.read_text()]
    if not files:
        raise HyperfrontError("no result files", got=folder, fix="hyperfront train PROBLEM --result FILE writes one")
    rows = summarise(Result.load(file) for file in files)
    if markdown:
        lines = [COLUMNS, tuple("---" for _ in COLUMNS), *rows]
        console.print("\n".join("| " + " | ".join(line) + " |" for line in lines), soft_wrap=True, markup=False)
        return
    table = Table(box=None, header_style="bold", pad_edge=False, padding=(0, 2, 0, 0))
    shown = [index for index, name in enumerate(COLUMNS) if name != "best scores"]  # too wide for a terminal
    for index in shown:
        table.add_column(COLUMNS[index], justify="left" if index < 4 else "right", no_wrap=True)
    for row in rows:
        table.add_row(*(row[index] for index in shown))
    console.print(table)
