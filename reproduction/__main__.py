"""``python -m reproduction make``, ``list``, ``report`` and ``outdated``."""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path
from typing import Annotated

import torch
import tyro
from tyro.extras import subcommand_cli_from_dict

from hyperfront.apps.cli import guarded
from hyperfront.apps.cli.arguments import DataFolder, Device, Tf32, choose_device, set_tf32
from hyperfront.apps.cli.output import console, show_table
from hyperfront.errors import HyperfrontError, unknown_name
from hyperfront.problem.registry import build
from hyperfront.storage import files
from hyperfront.storage.provenance import NUMERICS
from reproduction.items import ITEMS, reproduce
from reproduction.outdated import COLUMNS, outdated, plan, rerun
from reproduction.report import report as report_page
from reproduction.store import PRESETS, Store

RESULTS = Path(__file__).parent / "results"
"""The folder of the results in the repository."""
Items = Annotated[tuple[str, ...], tyro.conf.Positional, tyro.conf.arg(metavar="ITEM ...", help_behavior_hint="")]
Folder = Annotated[Path, tyro.conf.arg(metavar="FOLDER")]


def make(
    items: Items = (),
    *,
    preset: Annotated[str, tyro.conf.arg(metavar="NAME")] = "smoke",
    device: Device = "auto",
    tf32: Tf32 = False,
    data_dir: DataFolder = None,
    out: Folder = RESULTS,
    runs: Folder = Path("runs/reproduce"),
) -> None:
    """Make tables and figures of the paper: train what they need, and show our numbers beside the paper's.

    The command writes data.json, table.md, figure.png and figure.svg of each item to OUT/PRESET/ITEM. Items share their
    training runs, and finished runs are not repeated: after an interruption, the same command continues. Examples:
        python -m reproduction make table-1 figure-3 --preset full
        python -m reproduction make all --preset full

    Args:
        items: figure-1 to figure-12, table-1 to table-6, appendix-b2, deviations; or all.
        preset: smoke (seconds, shows that the item runs; its numbers mean nothing) or full (as the paper; for a GPU).
        out: Folder for results, which are small.
        runs: Folder for training runs, which are large and only needed to continue after an interruption.
    """
    if not items:
        raise HyperfrontError("no item was named", expected="one or several", fix="python -m reproduction list")
    names = [*ITEMS] if "all" in items else items
    if unknown := [name for name in names if name not in ITEMS]:
        raise unknown_name("item of the paper", unknown[0], ITEMS)
    choose_device(device, build("fonseca"))
    for folder in (out, runs):  # raised now, not after the first training
        files.refuse_unwritable(folder / preset / "data.json", again=True)
    set_tf32(tf32)
    torch.set_num_threads(1)
    store = Store(out, preset, device=device, data_dir=data_dir, runs=runs, notify=partial(console.print, style="dim"))
    if failed := [name for name in names if not _made(name, store)]:
        raise HyperfrontError("some items failed", got=", ".join(failed), fix="see above, then use the same command")


def _made(name: str, store: Store) -> bool:
    """Make and show an item. Its error is shown, too: other items may not need the data that it misses."""
    try:
        _, folder = reproduce(name, store)
        text = (folder / "table.md").read_text().partition("\n## ")[0]  # without what differs from the paper
        console.print(text, soft_wrap=True, markup=False, highlight=False)
        return True
    except KeyboardInterrupt as stop:
        stop.args = (f"stopped in {name}; the same command continues",)
        raise
    except HyperfrontError as error:
        console.print(f"{name}: {error}\n", style="red", soft_wrap=True, markup=False)
        return False


def list_items() -> None:
    """List the items of the paper."""
    show_table(("item", "what it shows"), [(name, item.what) for name, item in ITEMS.items()], left=2)


def report(
    folder: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="FOLDER")] = RESULTS,
    *,
    out: Annotated[Path, tyro.conf.arg(metavar="FILE")] = Path("report.html"),
) -> None:
    """Build one page from a folder of results: every table and figure, with our numbers beside the paper's.

    The page is one file that needs no script and no network. It has the items that `python -m reproduction make`
    made with the preset full.

    Args:
        folder: Folder to which `python -m reproduction make` and `hyperfront train --result` write.
        out: The page to write.
    """
    if not (folder / "full").is_dir():
        fix = "python -m reproduction make ITEM --preset full --out FOLDER"
        raise HyperfrontError("the folder holds no results", got=folder, fix=fix)
    files.write_bytes(out, report_page(folder).encode())
    console.print(f"wrote {out} ({out.stat().st_size / 2**20:.1f} MiB): it needs no server and no network")


def show_outdated(
    *,
    minutes: Annotated[float | None, tyro.conf.arg(metavar="N")] = None,
    device: Device = "auto",
    tf32: Tf32 = False,
    data_dir: DataFolder = None,
    out: Folder = RESULTS,
    runs: Folder = Path("runs/reproduce"),
) -> None:
    """List the results in tables that are older than the numerics of the package, and run some again.

    With a time budget, the shortest results of studies run again that fit into it, by the time that each took before,
    and only on the kind of device that made them. The same command continues after an interruption.

    Args:
        minutes: The time budget; without it nothing is trained.
        out: Folder of results.
        runs: Folder for training runs.
    """
    found = outdated(out)
    show_table(COLUMNS, [each.row() for each in found], left=2)
    console.print(f"{len(found)} results are older than numerics {NUMERICS}")
    if minutes is None:
        return
    where = choose_device(device, build("fonseca"))
    chosen = plan(found, minutes, str(where))
    set_tf32(tf32)
    torch.set_num_threads(1)
    notify = lambda part: console.print(f"  {part}", style="dim")  # noqa: E731
    for preset in PRESETS:
        store = Store(out, preset, device=device, data_dir=data_dir, runs=runs, notify=notify)
        rerun(store, [each for each in chosen if each.file.is_relative_to(out / preset)])
    console.print(f"{len(chosen)} ran again; make the items that show them again: python -m reproduction make")


def main(arguments: list[str] | None = None) -> None:
    """Run a command of ``python -m reproduction``."""
    commands = {"make": make, "list": list_items, "report": report, "outdated": show_outdated}
    given = (sys.argv[1:] if arguments is None else arguments) or ["--help"]
    with guarded():
        config = (tyro.conf.FlagCreatePairsOff,)
        subcommand_cli_from_dict(commands, prog="python -m reproduction", args=given, config=config)


if __name__ == "__main__":
    main()
