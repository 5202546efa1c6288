"""``hyperfront train``: a built-in problem, from its name to a run folder."""

from __future__ import annotations

import dataclasses
import shlex
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Annotated, Any

import torch
import tyro

from hyperfront.apps.cli.arguments import (
    Arguments,
    BuiltIn,
    DataFolder,
    Device,
    Engine,
    Flag,
    Folder,
    Keep,
    Number,
    Preset,
    Tf32,
    choose_device,
    option,
    parse,
    set_tf32,
)
from hyperfront.apps.cli.dry_run import show
from hyperfront.apps.cli.named import OWN, Named, find
from hyperfront.apps.cli.output import console, draw, free_folder, list_files, show_front
from hyperfront.comparison import measure
from hyperfront.comparison.method import HYPERNETWORK, name_of
from hyperfront.comparison.methods import find_method
from hyperfront.errors import HyperfrontError
from hyperfront.problem import Problem
from hyperfront.solvers.names import make_solver
from hyperfront.storage import files
from hyperfront.storage.files import refuse_unwritable
from hyperfront.storage.provenance import describe
from hyperfront.training import Progress, fit
from hyperfront.training.defaults import usual_solver
from hyperfront.training.restarts import continues
from hyperfront.training.runs import Run, RunFolder
from hyperfront.training.team import Team, join

_SOLVER = (
    "Solver. A ray r asks for equal r_j l_j (epo, tchebycheff, stch), a direction of the losses (pbi, cosmos, pmtl, "
    "hvmax), loss weights (ls), or no point in particular (mgda)."
)
_SOLVER_ARGUMENTS = (
    "Arguments of the solver: penalty=5 (pbi), weight=5 (cosmos), cosine=5 (hvmax), descent=0.2 (epo), ..."
)
Real = Annotated[float | None, tyro.conf.arg(metavar="X", help_behavior_hint="(preset)")]


def train(
    problem: BuiltIn,
    /,
    *,
    preset: Preset = None,
    solver: Annotated[str | None, tyro.conf.arg(metavar="NAME", help=_SOLVER, help_behavior_hint="")] = None,
    arguments: Arguments = (),
    solver_arguments: Annotated[Arguments, tyro.conf.arg(metavar="X=Y..", help=_SOLVER_ARGUMENTS)] = (),
    epochs: Number = None,
    batch_size: Number = None,
    rays_per_step: Number = None,
    lr: Real = None,
    alpha: Real = None,
    hidden: Number = None,
    rays: Number = None,
    seed: int = 0,
    device: Device = "auto",
    data_dir: DataFolder = None,
    out: Folder = None,
    engine: Engine = "auto",
    tf32: Tf32 = False,
    result: Annotated[Path | None, option("FILE")] = None,
    resume: Flag = False,
    keep: Keep = 2,
    dry_run: Flag = False,
) -> None:
    """Train on a problem, print its front and write a run folder.

    A preset of the problem gives the settings marked (preset). Problems with data have quick (minutes on two cores),
    smoke (seconds), paper (the paper's settings) and best (our settings). A CSV file has other options, which
    `hyperfront train data.csv --help` explains. Examples:
        hyperfront train multi-fashion-mnist --preset best --device cuda
        hyperfront train fonseca --solver ls --out runs/ls --resume
        torchrun --nproc-per-node 4 -m hyperfront train adult --out runs/a

    Args:
        arguments: Arguments of the problem, such as m=4.
        epochs: Passes over the data, or 100 steps each.
        batch_size: Rows of each step, split among its rays.
        rays_per_step: Rays drawn for each step.
        lr: Highest learning rate of Adam.
        alpha: Dirichlet concentration of the rays.
        hidden: Width of the hypernetwork.
        rays: Rays at which the front is evaluated.
        seed: Seed of all random numbers.
        out: Run folder; by default a new one below runs/.
        result: File for losses and scores on the test data.
        resume: Continue the run in --out, or begin it there.
        dry_run: Print settings, sizes and expected time; stop.
    """
    team = join()
    resume = _ready(team, out, result, resume)
    named = find(problem, preset=preset, arguments=arguments, data_dir=data_dir)
    built, name = named.problem, problem
    solver = solver or _usual(named)
    made = make_solver(solver, parse(solver_arguments))
    settings = named.recipe.changed(
        epochs=epochs,
        batch_size=batch_size,
        rays_per_step=rays_per_step,
        lr=lr,
        alpha=alpha,
        evaluation_rays=rays,
        model={} if hidden is None else {"hidden": hidden},
    )
    _check(name, built, seed, batch_size)
    set_tf32(tf32)

    _ = built.train.source  # an error in the data is raised first
    torch.manual_seed(seed)
    model = built.model(**settings.model).to(choose_device(device, built))
    console.print(f"[bold]{name}[/bold]  {named.summary}")
    console.print(model.summary(), style="dim")
    if resume and out is not None and not RunFolder(out).config.exists():
        console.print(f"nothing to resume in {out}: a new run begins")
    if dry_run:
        show(settings, model, built, made)
        return
    folder = RunFolder(out or free_folder(Path("runs") / f"{named.word}-{solver}"))
    before, start = folder.seconds() if resume else 0.0, time.perf_counter()
    with resumable(name, folder):
        run = fit(
            model,
            built,
            **settings.hypernetwork(made),
            seed=seed,
            out=folder.path,
            resume=resume,
            keep=keep,
            engine=engine,
            validation_rays=settings.evaluation_rays,
            callbacks=[Progress()],
        )
    if not team.first:
        return
    remember_command(folder)
    seconds = before + time.perf_counter() - start
    report(run, built, seconds=seconds, options=f" --problem {name}" if named.preset == OWN and ":" in name else "")
    if result is not None:
        known = describe(dataclasses.asdict(settings))
        known |= {"solver": parse(solver_arguments)} if solver_arguments else {}
        method = find_method(name_of(HYPERNETWORK, solver))
        found = measure(run, built, preset=named.preset, method=method, seed=seed, settings=known, seconds=seconds)
        found.save(result)
        split, reached = (
            "test: " if built.has_data else "",
            "hypervolume {hypervolume:.4f}, uniformity {uniformity:.4f}",
        )
        console.print(f"\n{split}{reached.format(**found.fronts['test'])}; {result}")


def _usual(named: Named) -> str:
    """The name of the default solver: EPO for built-in problems; for others, the solver that suits their losses."""
    return "epo" if named.preset != OWN else type(usual_solver(named.problem)).__name__.lower()


def _check(name: str, built: Problem, seed: int, batch_size: int | None) -> None:
    """Raise an error for a seed out of range, or a batch size without data."""
    if not 0 <= seed < 2**63:
        raise HyperfrontError("the seed is out of range", got=seed, expected="0 to 2**63 - 1")
    if batch_size is not None and not built.has_data:
        raise HyperfrontError(f"{name} has no data to make batches of", fix="leave --batch-size out")


def _ready(team: Team, out: Path | None, result: Path | None, resume: bool) -> bool:
    """Check the files that are asked for, and return whether to continue a run. Of several processes that train
    together, the first one writes and prints."""
    if not team.alone and out is None:
        raise HyperfrontError("several processes need one run folder", fix="add --out FOLDER, which all of them see")
    resume = resume or continues(RunFolder(out) if out else None)
    if team.first:
        refuse_unusable(out, result, resume)
    else:
        console.quiet = True
    return resume


def refuse_unusable(out: Path | None, result: Path | None, resume: bool) -> None:
    """Raise an error now, not after the last epoch, for a folder or file that cannot be written."""
    if resume and out is None:
        raise HyperfrontError("--resume needs the folder of a run", fix="add --out FOLDER")
    if out is not None and not resume and RunFolder(out).config.exists():
        raise HyperfrontError("the folder already holds a run", got=out, fix="add --resume, or choose another --out")
    if result is not None:
        refuse_unwritable(result, again=resume)


def remember_command(folder: RunFolder) -> None:
    """Write the typed command into the run folder, for its report."""
    if "train" in sys.argv[1:2]:
        files.write_bytes(folder.command, (shlex.join(["hyperfront", *sys.argv[1:]]) + "\n").encode())


@contextmanager
def resumable(name: str, folder: RunFolder) -> Iterator[None]:
    """Make Ctrl-C within the ``with`` block print how to continue."""
    try:
        yield
    except KeyboardInterrupt as stop:
        stop.args = (_stopped(str(stop), name, folder),)
        raise
    finally:
        with suppress(OSError):  # removes a folder that is still empty
            folder.path.rmdir()


def _stopped(said: str, name: str, folder: RunFolder) -> str:
    """The message of an interrupted training, and the command that continues it."""
    if not folder.config.exists():
        return "stopped before the first step; nothing was saved"
    where = said.split(". Continue")[0] or f"stopped outside of training; the trained model is in {folder.path}"
    return f"{where}.\nContinue with: {_again(name, folder)}"


def _again(name: str, folder: RunFolder) -> str:
    """The typed command, changed so that it continues; `hyperfront demo` trains with default settings."""
    typed = sys.argv[1:] if "train" in sys.argv[1:2] else ["train", name]
    more = [] if any(word.split("=")[0] == "--out" for word in typed) else ["--out", str(folder.path)]
    return shlex.join(["hyperfront", *typed, *more, *([] if "--resume" in typed else ["--resume"])])


def report(run: Run, problem: Any, *, seconds: float, options: str = "") -> None:
    """Print and draw the front of a run; ``options`` are those that other commands need."""
    if run.front is None or run.folder is None:
        return
    console.print(f"\ntrained in {seconds:.1f} s\n")
    show_front(run.front, problem)
    console.print(f"{'solver':<28}" + ", ".join(f"{kind.replace('_', ' ')} {n:,}" for kind, n in run.status.items()))
    draw(run.front, run.folder)
    list_files(run.folder)
    console.print(f"\nOn a page: [bold]hyperfront explore {run.folder.path}{options}[/bold]")
