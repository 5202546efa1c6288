"""``python -m reproduction report``: one page that shows the whole reproduction."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import tyro

from hyperfront.apps.cli.output import console
from hyperfront.comparison.result import load_folder
from hyperfront.errors import HyperfrontError
from hyperfront.storage import files
from reproduction.command import RESULTS


def report(
    folder: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="FOLDER")] = RESULTS,
    *,
    out: Annotated[Path, tyro.conf.arg(metavar="FILE")] = Path("report.html"),
) -> None:
    """Build one page from a folder of results: every table and figure of the paper, ours beside the paper's.

    The page is one file without scripts, that needs no network: it can be mailed or printed. It is made from the
    files that exist, also while `python -m reproduction make` is running; what is missing is listed, with the command
    for it.

    Args:
        folder: Where `python -m reproduction make` and `hyperfront train --result` wrote.
        out: The page to write.
    """
    from reproduction.report import report as make  # needs matplotlib, which other commands should not wait for
    from reproduction.store import PRESETS

    if not folder.is_dir():
        raise HyperfrontError("there is no such folder", got=folder, fix="python -m reproduction make ITEM writes one")
    if (folder / "studies").is_dir():
        raise HyperfrontError(
            "that is one preset of the results", got=folder, fix=f"python -m reproduction report {folder.parent}"
        )
    if not any((folder / preset).is_dir() for preset in PRESETS) and not load_folder(folder):
        raise HyperfrontError(
            "the folder holds no results", got=folder, fix="python -m reproduction make ITEM makes some"
        )
    files.write_bytes(out, make(folder).encode())
    console.print(f"wrote {out} ({out.stat().st_size / 2**20:.1f} MiB): it needs no server and no network")
