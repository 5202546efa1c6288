"""``hyperfront results``: the table of a folder of result files."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import tyro

from hyperfront.apps.cli.arguments import Flag
from hyperfront.apps.cli.output import console, show_table
from hyperfront.comparison.result import load_folder
from hyperfront.comparison.table import COLUMNS, summarize, without_scores
from hyperfront.errors import HyperfrontError
from hyperfront.storage.markdown import as_markdown


def results(
    folder: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="FOLDER")] = Path("results"),
    *,
    markdown: Flag = False,
) -> None:
    """Print a table of the result files that `train --result`, `compare` and the reproduction wrote.

    Hypervolume and uniformity (natural log) are measured on the test data, at the problem's rays, for the model that
    validation chose: mean and standard deviation over seeds. "Of attainable" compares the uniformity at each ray with
    the best uniformity that a non-dominated point of any result for that problem has at this ray. "Non-dominated" is
    the share of points that no other point of the same front dominates; copies of a point count once. Folders called
    smoke, with small runs that only show that the code works, are skipped.

    Args:
        folder: Folder with the files, at any depth.
        markdown: Print the table as Markdown, and the best scores over the rays as well.
    """
    found = load_folder(folder, without="smoke")
    if not found:
        what = "the folder has no result files" if folder.is_dir() else "there is no such folder"
        raise HyperfrontError(what, got=folder, fix="hyperfront train PROBLEM --result FILE writes one")
    rows = summarize(found)
    if markdown:
        console.print(as_markdown(COLUMNS, rows), soft_wrap=True, markup=False)
        return
    show_table(*without_scores(rows), left=4, keys=(0, 3))
