"""``fit``: a run from its settings to its front, in three parts: prepare, run, finish.

Randomness: only the rays and the order of the data of epoch ``e`` come from a generator seeded by ``(seed, e)`` on the
CPU, so that a run can be resumed in the middle of an epoch and a GPU sees the same rays. Dropout and user code draw
from PyTorch's global generator. It is seeded at the start, stored in the checkpoint, and restored for the caller at the
end.
"""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import fields
from functools import partial
from pathlib import Path
from typing import Any, Literal

import torch
from torch import Tensor, nn
from torch.optim import Optimizer
from torch.optim.lr_scheduler import LRScheduler

from hyperfront.errors import check_choice, check_flag
from hyperfront.front import Front, alignment
from hyperfront.model import ParetoModel
from hyperfront.model.expected import expect_device
from hyperfront.preferences import Preferences, layout
from hyperfront.problem import Problem
from hyperfront.solvers import Solver
from hyperfront.storage import files
from hyperfront.training.callbacks import Callback, JsonLines, tell
from hyperfront.training.checkpoints import TWO, Checkpoints, check_keep
from hyperfront.training.defaults import SETTINGS, resolved
from hyperfront.training.engines import ENGINES
from hyperfront.training.handed import check_handed, check_problem
from hyperfront.training.job import Job
from hyperfront.training.loop import run_epochs
from hyperfront.training.precision import Precision, refuse_autocast
from hyperfront.training.preparation import discarding, prepare, together
from hyperfront.training.progress import Progress
from hyperfront.training.ranks import refuse_several
from hyperfront.training.refusals import check_solver
from hyperfront.training.restarts import continues
from hyperfront.training.runs import Run, RunFolder
from hyperfront.training.settings import Settings
from hyperfront.training.team import Team, join
from hyperfront.training.validation import measured


def fit(
    model: ParetoModel | Callable[[], ParetoModel],
    problem: Problem,
    *,
    members: int | None = None,
    average: str | Sequence[str] | None = None,
    solver: Solver | None = None,
    preferences: Preferences | None = None,
    epochs: int | None = None,
    rays_per_step: int | None = None,
    batch_size: int | None = None,
    share_batch: bool = False,
    accumulate: int = 1,
    checkpoint_activations: bool = False,
    freeze_after: float | None = None,
    optimizer: Callable[[Iterable[nn.Parameter]], Optimizer] | None = None,
    lr: float | None = None,
    schedule: str | Callable[[Optimizer], LRScheduler] | None = None,
    warmup: int | None = None,
    seed: int = 0,
    out: str | Path | None = None,
    resume: bool = False,
    keep: int | Literal["all"] = TWO,
    device: str | torch.device | None = None,
    engine: str = "auto",
    deterministic: bool = False,
    precision: Precision | None = None,
    validate_every: int | None = None,
    validation_rays: int | Tensor | Sequence | None = None,
    patience: int | None = None,
    align: bool | None = None,
    criterion: Callable[[Front], float] | None = None,
    callbacks: Sequence[Callback] | None = None,
) -> Run:
    """Train ``model`` on ``problem``; afterwards it holds the weights with the best validation hypervolume.

    Without validation data, or without a reference point for the hypervolume, it holds the last weights. A warning
    tells if all rays end at the same losses, which happens if units of the hypernetwork died.

    Some problems, such as tables, have their own defaults (:attr:`Problem.training`); the other problems have the
    defaults below.
    On a CPU, small models train with one thread, unless the number of threads was set (docs/benchmarks.md).

    Args:
        model: A model that :func:`hyperfront.wrap` made; with ``members``, a function that makes one.
        problem: A problem that :func:`hyperfront.supervised` or :func:`hyperfront.analytic` made.
        members: Train this many models one after the other, with seeds from ``seed`` on; return the ensemble.
        average: What an ensemble averages (:func:`hyperfront.ensemble`).
        solver: Weighs the objectives' gradients; EPO by default, or LS if a loss is a :class:`hyperfront.Gap`.
        preferences: Draws the training rays; Dirichlet(0.2) by default.
        epochs: Passes over the training data, 30 by default; for an analytic problem, 100 steps each.
        rays_per_step: The number of rays of one step, 1 by default.
        batch_size: Rows of a step, 256 by default. A loader has its own batch size.
        share_batch: Every ray of a step sees the whole batch; by default the batch is split among them.
        accumulate: The number of micro-batches in which a step takes its batch, for memory. The solver sees the losses
            and gradients of the whole batch; BatchNorm that uses its batch is refused.
        checkpoint_activations: Run blocks of the network again in the backward pass instead of keeping their
            activations, for memory (:mod:`hyperfront.training.recomputation`).
        freeze_after: The share of the epochs after which parameters that are trained directly, such as ``W0`` of
            low-rank additions, are frozen, and only the hypernetwork is trained further.
        optimizer: Makes an optimizer from the parameters; Adam with ``lr`` by default.
        lr: The learning rate of the default Adam, 0.001 by default.
        schedule: ``"cosine"``, the default, ``"constant"``, or a function that makes a scheduler from the optimizer. It
            is stepped after every step.
        warmup: Steps over which the learning rate rises from 0, before the cosine or constant schedule; 0 by default.
        seed: Fixes rays, order of the data, and PyTorch's random numbers (dropout).
        out: The run folder: ``config.json`` and ``environment.json`` (written before the first step),
            ``metrics.jsonl``, ``last.safetensors``, ``previous.safetensors`` (the checkpoint before),
            ``best.safetensors`` (where weights are selected), ``front.json``. Checkpoints are written on Ctrl-C,
            SIGTERM and SIGHUP, at the end, and so often that writing takes a twentieth of the time, also within long
            epochs.
        resume: Continue the run in ``out`` exactly where it stopped. If its newest checkpoint is damaged, the run
            continues from the one before, with a warning.
        keep: The number of checkpoints to keep besides the best: 2 by default, which are the last one and the one
            before. A larger number, or ``"all"``, writes a checkpoint after every epoch and keeps those of the last
            ``keep`` epochs, or of all, as ``epoch-1.safetensors``, ``epoch-2.safetensors``, ...; ``hyperfront.load``
            reads each. A resumed run may keep another number.
        device: The device to train on; by default the model's.
        engine: Runs the steps (:mod:`hyperfront.training.engines`), with the same numbers: ``"auto"``, ``"eager"``,
            ``"traced"``, ``"compiled"`` or ``"graph"``.
        deterministic: Two runs with the same seed, machine and engine end at the same bytes. This uses PyTorch's
            deterministic algorithms, some of which are slower; an operation without one is an error.
        precision: The rounding of products (:mod:`hyperfront.training.precision`): ``"float32"``, ``"tf32"``,
            ``"bf16"``, or None for PyTorch's present setting.
        validate_every: Epochs between validations, 1 by default; the last epoch always has one.
        validation_rays: The rays to validate at, or their number for an even grid; 25 by default.
        patience: The run ends after this many validations without a better hypervolume.
        align: Align rays on the validation data at the end (:func:`hyperfront.align`).
        criterion: Measures the validation front instead of its hypervolume; larger is better.
        callbacks: Called at every step and epoch; a progress bar by default.
    """
    if members is not None:
        return _fit_members(**locals())
    refuse_autocast("fit")
    team, model = join(), check_handed(model, problem, preferences, callbacks, average)
    used = resolved(
        problem,
        solver=solver,
        preferences=preferences,
        epochs=epochs,
        rays_per_step=rays_per_step,
        batch_size=batch_size,
        lr=lr,
        schedule=schedule,
        warmup=warmup,
        validate_every=validate_every,
        validation_rays=validation_rays,
        align=align,
    )
    settings = Settings(
        **{name: used[name] for name in SETTINGS},
        share_batch=share_batch,
        accumulate=accumulate,
        checkpoint_activations=checkpoint_activations,
        freeze_after=freeze_after,
        optimizer=optimizer,
        seed=seed,
        deterministic=deterministic,
        precision=precision,
        patience=patience,
    )
    check_flag("resume", resume)
    check_keep(keep)
    check_flag("align", used["align"])
    check_choice("engine", engine, ENGINES)
    device = expect_device(model.device if device is None else device)
    folder = RunFolder(files.as_path(out)) if out is not None else None
    job = Job(
        model=model,
        problem=problem,
        settings=settings,
        solver=check_solver(used["solver"]),
        preferences=used["preferences"],
        rays=layout(used["validation_rays"], model.m, model.objectives),
        align=used["align"],
        criterion=criterion,
        folder=folder,
        callbacks=_told(team, folder, [Progress()] if callbacks is None else callbacks),
        keep=keep,
        team=team,
    )
    with team.raising():
        job.check()
    model.to(device)
    model.alignment, model.record = model.alignment[:0], job.record()  # an alignment is of the weights measured with it
    with together(job, resume := resume or continues(folder)):
        run = prepare(job, engine, resume)
        with discarding(job):
            history = run_epochs(job, *run)
        front = _finish(job, run.checkpoints)
    return Run(model=model, front=front, history=history, folder=folder)


def _told(team: Team, folder: RunFolder | None, callbacks: Sequence[Callback]) -> list[Callback]:
    """The callbacks of this process: of several that train together, the first one has all."""
    return [*([JsonLines(folder.metrics)] if folder else []), *callbacks] if team.first else []


def _fit_members(model: Any, problem: Problem, solver: Solver | None, align: bool | None, **options: Any) -> Run:
    """Train an ensemble: see ``members`` of :func:`fit`."""
    from hyperfront.training.members import fit_members  # which few runs need

    refuse_several("fit(members=)")
    check_problem(problem)
    used = resolved(problem, solver=solver, align=align)
    check_flag("align", used["align"])
    known = check_solver(used["solver"])
    return fit_members(fit, model, problem, align=used["align"], convention=known.convention, solver=solver, **options)


def _finish(job: Job, checkpoints: Checkpoints) -> Front | None:
    """Load the best weights, align them if asked for, and measure the validation front."""
    model, folder, batch_size = job.model, job.folder, job.settings.batch_size
    if checkpoints.state.best:
        model.load_state_dict(checkpoints.state.best)
    model.eval()
    if job.align and job.criterion is None and checkpoints.state.position.best == 0:
        warnings.warn("no point of the validation front is below the reference: rays are not aligned", stacklevel=3)
    elif job.align:
        told = partial(tell, job.callbacks, "aligned")
        measure = partial(measured, team=job.team)
        alignment.align(model, job.problem.val, batch_size=batch_size, turned=told, measure=measure)
        checkpoints.write_aligned()
    if not job.validates:
        return None
    front = measured(model, job.problem.val, job.rays, batch_size=batch_size, team=job.team)
    if len(front) > 1 and (front.losses == front.losses[0]).all():
        warnings.warn(
            f"all {len(front)} rays have the same validation losses: the hypernetwork ignores its ray; try inputs of "
            "unit size, a larger hidden dimension, a lower learning rate, or losses that conflict",
            stacklevel=3,
        )
    if folder and job.team.first:
        front.save(folder.front)
    return front


def settings_of(arguments: Mapping[str, Any]) -> Settings:
    """Return the settings of a call of :func:`fit` with these arguments, checked."""
    asked = inspect.signature(fit).bind_partial(**arguments)
    asked.apply_defaults()
    used = {part.name: asked.arguments[part.name] for part in fields(Settings)}
    return Settings(**used | resolved(None, **{name: used[name] for name in SETTINGS}))
