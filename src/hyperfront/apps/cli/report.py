"""``hyperfront report``: one page about a run."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import torch

from hyperfront.apps.cli.arguments import DataFolder, OwnProblem, Target, TrainedRun, Which, option
from hyperfront.apps.cli.opening import open_model, open_problem
from hyperfront.apps.cli.output import console
from hyperfront.front import Front, evaluate
from hyperfront.storage import files
from hyperfront.training.runs import RunFolder


def report(
    run: TrainedRun,
    /,
    *,
    at: Annotated[tuple[float, ...], option("NUMBER ...")] = (),
    title: Annotated[str | None, option("TEXT")] = None,
    notes: Annotated[str | None, option("TEXT")] = None,
    which: Which = None,
    target: Target = None,
    problem: OwnProblem = None,
    data_dir: DataFolder = None,
    out: Annotated[Path | None, option("FILE")] = None,
) -> None:
    """Write one page about a trained run: the chosen point and how sure it is, groups, front, data and settings.

    The page is one file without scripts, to mail or print, and can be read on a phone. Examples:
        hyperfront report runs/people
        hyperfront report runs/mine --problem mine:problem --at 0.3 0.7

    Args:
        at: The ray to report; by default the one that training chose, or else the equal ray.
        title: Title of the page.
        notes: Introduction of the page; an empty line separates paragraphs.
        out: File to write; by default report.html in the run folder.
    """
    from hyperfront.apps.report import report as make

    folder = RunFolder(run) if run.is_dir() else None
    path = out or (folder.path if folder else run.parent) / "report.html"
    files.refuse_unwritable(path, again=True)
    model = open_model(run, target, which, problem)
    built = open_problem(model, problem, data_dir)
    torch.set_num_threads(1)
    stored = Front.load(folder.front) if folder and folder.front.exists() and which != "last" else None
    front = stored or evaluate(model, built.split("val") if built.has_data else built)
    text = make(model, built, front, folder, ray=at or None, title=title, notes=notes)
    files.write_bytes(path, text.encode())
    console.print(f"wrote {path} ({len(text.encode()) / 2**20:.1f} MiB): it needs no server and no network")
