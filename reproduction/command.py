"""``python -m reproduction make`` and ``list``: the tables and figures of the paper."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import torch
import tyro
from rich.table import Table

from hyperfront.apps.cli.arguments import DataFolder, Device, Tf32, choose_device, set_tf32
from hyperfront.apps.cli.output import console, show_table
from hyperfront.errors import HyperfrontError
from hyperfront.problem.registry import build
from hyperfront.storage.files import refuse_unwritable

RESULTS = Path(__file__).parent / "results"
"""The results that are kept in the repository."""
Items = Annotated[tuple[str, ...], tyro.conf.Positional, tyro.conf.arg(metavar="ITEM ...", help_behavior_hint="")]


def make(
    items: Items = (),
    *,
    preset: Annotated[str, tyro.conf.arg(metavar="NAME")] = "smoke",
    seeds: Annotated[int | None, tyro.conf.arg(metavar="N", help_behavior_hint="")] = None,
    device: Device = "auto",
    tf32: Tf32 = False,
    data_dir: DataFolder = None,
    out: Annotated[Path, tyro.conf.arg(metavar="FOLDER")] = RESULTS,
    runs: Annotated[Path, tyro.conf.arg(metavar="FOLDER")] = Path("runs/reproduce"),
) -> None:
    """Make tables and figures of the paper: train what they need, and put ours beside the paper's.

    For each item: data.json, table.md, figure.png, figure.svg and differences.md in OUT/PRESET/ITEM. Items share
    what they train, and what is finished is not run again: after an interruption, the same command goes on. Examples:
        python -m reproduction make figure-1
        python -m reproduction make table-1 figure-3 --preset full
        python -m reproduction make all --preset full --seeds 1

    Args:
        items: figure-1 to figure-12, table-1 to table-6, appendix-b2, deviations; or all.
        preset: smoke (seconds, to see that it runs; its numbers mean nothing) or full (as in the paper; for a GPU).
        seeds: Train seeds 0, 1, ..., instead of as many as each item has; it shows all that are there.
        out: Where results go; small, to be kept.
        runs: Where training runs go; large, only needed to go on after an interruption.
    """
    from reproduction.items import ITEMS, key  # they need matplotlib, which other commands should not wait for
    from reproduction.reproduce import reproduce
    from reproduction.store import Workshop

    named = [key(name) for name in items if name != "all"]
    if not items:
        raise HyperfrontError("no item was named", expected="one or several", fix="python -m reproduction list")
    if seeds is not None and seeds < 1:
        raise HyperfrontError("no seeds", got=seeds, expected="one at least")
    names = [*ITEMS] if "all" in items else named
    choose_device(device, build("fonseca"))
    for folder in (out, runs):  # said now, not after the first training
        refuse_unwritable(folder / preset / "data.json", again=True)
    set_tf32(tf32)
    torch.set_num_threads(1)
    workshop = Workshop(
        out, preset, seeds=seeds, device=device, data_dir=data_dir, runs=runs, progress=True, notify=_tell
    )
    failed = []
    for number, name in enumerate(names, start=1):
        console.print(f"[bold]{number}/{len(names)}  {name}[/bold]  {ITEMS[name].what}")
        try:
            finding, folder = reproduce(name, ITEMS[name], workshop)
        except KeyboardInterrupt:
            raise KeyboardInterrupt(f"stopped in {name}; the same command goes on") from None
        except HyperfrontError as error:
            if len(names) == 1:
                raise
            failed.append(name)  # data that are missing, say, which others may not need
            console.print(f"{error}\n", style="red", soft_wrap=True, markup=False)
            continue
        _show(finding, folder, real=preset == "full" or not ITEMS[name].trains)
    if failed:
        raise HyperfrontError("not all could be made", got=", ".join(failed), fix="see above, then the same command")


def _tell(part: str, finished: bool) -> None:
    if not finished:
        console.print(f"  {part}", style="dim")


def _show(finding: Any, folder: Path, *, real: bool) -> None:
    if not real:
        console.print(
            "a smoke test, with few rays and hardly any training: our numbers mean nothing (--preset full)",
            style="yellow",
            soft_wrap=True,
        )
    for table in finding.tables:
        console.print(f"[italic]{table.title}[/italic]")
        show_table(table.columns, table.rows, left=1)
        console.print()
    for claim in finding.claims if real else ():
        console.print(f"  {claim.verdict:5}  {claim.text}: {claim.numbers}", soft_wrap=True, markup=False)
    console.print(f"  {folder}\n", style="dim")


def list_items(items: Items = (), *, out: Annotated[Path, tyro.conf.arg(metavar="FOLDER")] = RESULTS) -> None:
    """List the items of the paper, and which of them are finished.

    Args:
        items: Only these.
        out: The folder of the results.
    """
    from reproduction.items import ITEMS, key
    from reproduction.store import PRESETS, Workshop

    workshops = [Workshop(out, preset, train=False) for preset in PRESETS]
    table = Table(box=None, header_style="bold", pad_edge=False, padding=(0, 2, 0, 0))
    for name in ("item", "what it shows", "full", "smoke"):
        table.add_column(name, no_wrap=name != "what it shows")
    for name in [key(name) for name in items] or ITEMS:
        item = ITEMS[name]
        table.add_row(name, item.what, *(_state(name, item, workshop) for workshop in workshops))
    console.print(table)
    console.print(
        f"\nwhat is there of each item in {out}: all of it (done), all it is made from (ready), some (how many parts "
        "are missing) or nothing (-); `python -m reproduction make ITEM --preset smoke|full` makes the rest",
        style="dim",
    )


def _state(name: str, item: Any, workshop: Any) -> str:
    from reproduction.reproduce import is_written

    finding = item.make(workshop)
    if finding.empty:
        return "-"
    if finding.missing:
        return f"{len(finding.missing)} missing"
    return "done" if is_written(name, item, workshop, finding) else "ready"
