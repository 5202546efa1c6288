"""``fit``: a run from its settings to its front. A convenience; everything in it works without it.

Randomness: the rays and the order of the data of epoch ``e``, and nothing else, come from a generator seeded by
``(seed, e)`` on the CPU, so that a run can be resumed in the middle of an epoch and a GPU sees the same rays. Dropout
and user code draw from PyTorch's global generator, which is seeded at the start, kept in the checkpoint, and given back
to the caller as it was.
"""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import fields
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import Optimizer
from torch.optim.lr_scheduler import LRScheduler

from hyperfront.errors import CheckpointError, HyperfrontError, ProblemError
from hyperfront.front import Front, alignment, evaluate
from hyperfront.model import ParetoModel
from hyperfront.preferences import Dirichlet, Preferences, layout
from hyperfront.problem import Problem
from hyperfront.problem.sources import LoaderSource
from hyperfront.solvers import EPO, Solver
from hyperfront.storage import locks
from hyperfront.storage.provenance import describe, environment, refuse_difference, units
from hyperfront.training.callbacks import Callback, JsonLines, Progress, tell
from hyperfront.training.deterministic import only_deterministic
from hyperfront.training.engines import make_engine
from hyperfront.training.epochs import Epochs
from hyperfront.training.loop import train_to_the_end
from hyperfront.training.runs import Run, RunFolder
from hyperfront.training.settings import Settings
from hyperfront.training.state import TrainingState
from hyperfront.training.step import Step, check_solver


def fit(
    model: ParetoModel,
    problem: Problem,
    *,
    solver: Solver | None = None,
    preferences: Preferences | None = None,
    epochs: int = 30,
    rays_per_step: int = 1,
    batch_size: int = 256,
    share_batch: bool = False,
    optimizer: Callable[[Iterable[nn.Parameter]], Optimizer] | None = None,
    lr: float = 1e-3,
    schedule: str | Callable[[Optimizer], LRScheduler] = "cosine",
    warmup: int = 0,
    seed: int = 0,
    out: str | Path | None = None,
    resume: bool = False,
    device: str | torch.device | None = None,
    engine: str = "auto",
    deterministic: bool = False,
    validate_every: int = 1,
    validation_rays: int | Tensor | Sequence = 25,
    patience: int | None = None,
    align: bool = False,
    criterion: Callable[[Front], float] | None = None,
    callbacks: Sequence[Callback] | None = None,
) -> Run:
    """Train ``model`` on ``problem``; afterwards it holds the weights with the best validation hypervolume (the last
    ones where there are no validation data, or no reference point to measure it from).

    ``solver`` is EPO and ``preferences`` Dirichlet(0.2) unless said. ``optimizer`` makes an optimizer from parameters
    (Adam with ``lr`` by default). ``schedule`` is ``"cosine"`` or ``"constant"``, after ``warmup`` steps from 0, or
    makes a scheduler from the optimizer; it is stepped after every step. A batch is split among the rays of a step, or
    with ``share_batch`` seen by all; a loader has a batch size of its own. ``engine`` says how steps are run
    (:mod:`hyperfront.training.engines`), with the same numbers: ``"auto"``, ``"eager"``, ``"compiled"`` or ``"graph"``.
    ``patience`` validations without a better hypervolume end the run. ``criterion`` measures the validation front by
    something else than its hypervolume, the larger the better. With ``align``, rays are aligned on the validation data
    at the end (:func:`hyperfront.align`). Where all rays end at the same losses, which can happen to hypernetworks
    whose units died, a warning says so.

    With ``deterministic``, runs with the same seed end at the same bytes on the same machine and engine: PyTorch's
    deterministic algorithms are switched on for the run, and an operation that has none is an error. Some are slower.

    With ``out``, the folder holds ``config.json`` and ``environment.json`` (before the first step), ``metrics.jsonl``,
    ``last.safetensors`` and ``best.safetensors``, and at the end ``front.json``; ``resume=True`` goes on there exactly.
    These two are written on Ctrl-C, at the end, and so often that it takes a twentieth of the time.
    Problems without data have nothing to select on: their last weights are kept, and there is no ``best``.
    """
    settings = Settings(
        epochs=epochs,
        rays_per_step=rays_per_step,
        batch_size=batch_size,
        share_batch=share_batch,
        optimizer=optimizer,
        lr=lr,
        schedule=schedule,
        warmup=warmup,
        seed=seed,
        deterministic=deterministic,
        validate_every=validate_every,
        patience=patience,
    )
    solver, preferences = check_solver(solver or EPO()), preferences or Dirichlet()
    problem.check_model(model)
    steps = problem.train.source.steps(batch_size)
    if steps < 1:
        raise ProblemError("the training data gives no full batch", fix="lower the batch size")
    if patience is not None and not (problem.has_data and "val" in problem.sources):
        raise ProblemError("patience waits for a better front on validation data, and there are none")
    if patience is not None and problem.reference is None and criterion is None:
        raise ProblemError(
            "patience waits for a better hypervolume, which needs a reference point",
            fix="supervised(..., reference=(...)), a number above the losses you would accept for each objective",
        )
    if problem.has_data and "val" in problem.sources and problem.reference is None and criterion is None:
        warnings.warn("without a reference point there is no hypervolume: the last weights are kept", stacklevel=2)
    if align:  # said now, not after the last epoch
        alignment.check_convention(solver.convention)
        problem.split("val")
    rays = layout(validation_rays, model.m, model.objectives)
    model.to(device or model.device)
    model.alignment = model.alignment[:0]  # one of other weights says nothing of those to come
    model.record = {
        **describe(problem.identity or {}),
        "solver": type(solver).__name__,
        "convention": solver.convention,
        "units": units(problem),
        "seed": seed,
    }

    config = {
        **model.document(),
        **{key: value for key, value in describe(settings).items() if key != "name"},
        "solver": describe(solver),
        "preferences": describe(preferences),
        "align": align,
        "reference": describe(problem.reference),
        "steps_per_epoch": steps,
        **({"batch_size": source.batch_size} if isinstance(source := problem.train.source, LoaderSource) else {}),
        "validation_rays": describe(rays),
        **({} if criterion is None else {"criterion": describe(criterion)}),
    }
    folder = RunFolder(Path(out)) if out is not None else None
    if folder and folder.config.exists():
        _check_resume(folder, config, resume)
    callbacks = [Progress()] if callbacks is None else list(callbacks)
    callbacks = [JsonLines(folder.metrics), *callbacks] if folder else callbacks

    generators = [model.device] if model.device.type == "cuda" else []
    alone = locks.alone_in(folder.path) if folder else nullcontext()
    with alone, only_deterministic(deterministic), torch.random.fork_rng(devices=generators):
        torch.manual_seed(seed)
        made = settings.make_optimizer(model.parameters())
        step = Step(model, problem, solver, share_batch=share_batch)
        state = TrainingState(model, step, made, settings.make_schedule(made, epochs * steps))
        if folder and resume and folder.last.exists():
            state.load(folder.last)
        train = Epochs(state, problem, preferences, settings)
        if state.position.epoch == state.position.step == 0:
            train.try_out()
        if folder and not folder.config.exists():
            folder.create(config, environment(model.device))
        best = _best_so_far(folder, state)
        try:
            history = train_to_the_end(train, make_engine(engine, train), folder, callbacks, rays, criterion, best)
        except HyperfrontError:
            if folder:
                folder.discard()
            raise
        if best:
            model.load_state_dict(best)
        model.eval()
        if align and criterion is None and state.position.best == 0:
            warnings.warn("no point of the validation front is below the reference: rays are not aligned", stacklevel=2)
        elif align:
            alignment.align(model, problem.val, batch_size=batch_size, turned=partial(tell, callbacks, "aligned"))
            if folder:
                model.save(folder.best)
        front = evaluate(model, problem.val, rays, batch_size=batch_size) if "val" in problem.sources else None
    if front and len(rays) > 1 and (front.losses == front.losses[0]).all():
        warnings.warn(
            f"all {len(rays)} rays have the same validation losses: the hypernetwork came to ignore its ray; try "
            "inputs of unit size, a larger hidden dimension, or a lower learning rate",
            stacklevel=2,
        )
    if folder and front:
        front.save(folder.front)
    return Run(model=model, front=front, history=history, folder=folder)


def settings_of(arguments: Mapping[str, Any]) -> Settings:
    """The settings that :func:`fit` would have with these arguments, checked."""
    asked = inspect.signature(fit).bind_partial(**arguments)
    asked.apply_defaults()
    return Settings(**{part.name: asked.arguments[part.name] for part in fields(Settings)})


def _best_so_far(folder: RunFolder | None, state: TrainingState) -> dict[str, Tensor]:
    if folder is None or state.position.best is None or not folder.best.exists():
        return {}
    return {name: tensor.to(state.model.device) for name, tensor in folder.tensors("best").items()}


def _check_resume(folder: RunFolder, config: dict[str, Any], resume: bool) -> None:
    """A folder with a run is only touched to resume it, with the same configuration."""
    if not resume:
        raise CheckpointError(
            "the folder already holds a run", got=folder.path, fix="resume=True, or another folder for out="
        )
    refuse_difference(
        folder.read_config(),
        config,
        what="the run in this folder has another configuration",
        fix="resume with the same settings, or start a new run in another folder",
    )
