"""``fit``: the training loop around the step of Algorithm 1. A convenience; everything in it works without it.

Randomness: the rays and the order of the data of epoch ``e``, and nothing else, come from a generator seeded by
``(seed, e)`` on the CPU, so that a run can be resumed in the middle of an epoch and a GPU sees the same rays. Dropout
and user code draw from PyTorch's global generator, which is seeded at the start, kept in the checkpoint, and given back
to the caller as it was.
"""

from __future__ import annotations

import math
import time
import warnings
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import Optimizer
from torch.optim.lr_scheduler import LRScheduler

from hyperfront import alignment, checkpoint
from hyperfront.errors import CheckpointError, HyperfrontError, LossError, ProblemError
from hyperfront.front import Front, evaluate
from hyperfront.model import ParetoModel
from hyperfront.preferences import Dirichlet, Preferences, layout
from hyperfront.problem import Problem
from hyperfront.runs import Run, RunFolder
from hyperfront.solvers import EPO, Solver, Status
from hyperfront.sources import LoaderSource
from hyperfront.training.callbacks import Callback, JsonLines, Progress
from hyperfront.training.deterministic import only_deterministic
from hyperfront.training.engines import Engine, make_engine
from hyperfront.training.epochs import Epochs
from hyperfront.training.interrupt import ctrl_c
from hyperfront.training.record import describe, environment, refuse_difference, units
from hyperfront.training.settings import Settings
from hyperfront.training.state import Position, TrainingState
from hyperfront.training.step import Step, check_solver
from hyperfront.training.validation import calibrate, validate

FALLBACK_SHARE = 0.5
"""A solver that fell back on more than this share of an epoch's rays is not the solver it is named after: an error."""
CHECKPOINTS = 20
"""A checkpoint is due when its last writing has been paid for by this many times as much training."""


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

    ``solver`` is EPO and ``preferences`` Dirichlet(0.2) unless said. ``optimizer`` makes an optimiser from parameters
    (Adam with ``lr`` by default). ``schedule`` is ``"cosine"`` or ``"constant"``, after ``warmup`` steps from 0, or
    makes a scheduler from the optimiser; it is stepped after every step. A batch is split among the rays of a step, or
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
    with only_deterministic(deterministic), torch.random.fork_rng(devices=generators):
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
            history = _train(train, make_engine(engine, train), folder, callbacks, rays, criterion, best)
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
            alignment.align(model, problem.val, batch_size=batch_size, turned=partial(_each, callbacks, "aligned"))
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


def _train(
    train: Epochs,
    engine: Engine,
    folder: RunFolder | None,
    callbacks: Sequence[Callback],
    rays: Tensor,
    criterion: Callable[[Front], float] | None,
    best: dict[str, Tensor],
) -> list[dict[str, Any]]:
    """Epochs until the end, each with its validation, checkpoint and record; ``best`` is kept up to date."""
    state, problem, settings = train.state, train.problem, train.settings
    position, model, steps = state.position, train.model, train.length
    saved, cost = time.perf_counter(), 0.0  # when the last checkpoint was written, and the seconds that took
    unwritten = False  # whether the best weights are newer than their file
    history = [record for record in (folder.records() if folder else []) if record["epoch"] <= position.epoch]

    def done() -> bool:
        stale = settings.patience is not None and position.stale >= settings.patience
        return stale or position.epoch == settings.epochs

    def write(folder: RunFolder) -> None:
        """The best weights with the state that knows of them, so that a run that goes on finds both."""
        nonlocal unwritten
        if unwritten:
            checkpoint.write(folder.best, best, {"model": model.document()})
        unwritten = False
        state.save(folder.last)

    with ctrl_c() as request:

        def goes_on() -> bool:
            _each(callbacks, "stepped")
            return not request.made

        _each(callbacks, "started", epochs=settings.epochs, steps=steps, epoch=position.epoch, step=position.step)
        try:
            while not done():
                start = time.perf_counter()
                engine.run(position.epoch, goes_on)
                position.seconds += time.perf_counter() - start
                if position.step < steps and request.made:
                    raise KeyboardInterrupt(_stopped(state, folder, write if train.source.exact else None))
                record = _record(state, steps)
                _refuse_broken(state, steps)
                _refuse_fallbacks(record, state.step.solver)  # before anything of the epoch is kept
                epoch = position.begin(position.epoch + 1)
                if "val" in problem.sources and (epoch % settings.validate_every == 0 or epoch == settings.epochs):
                    front, record["validation"] = validate(model, problem, rays, settings.batch_size)
                    reached = criterion(front) if criterion else record["validation"]["hypervolume"]
                    if problem.has_data and _improved(position, reached):
                        best |= {name: tensor.detach().clone() for name, tensor in model.state_dict().items()}
                        unwritten = True
                elif epoch == settings.epochs:
                    calibrate(model, problem, settings.batch_size)
                history.append(record)
                _each(callbacks, "epoch_ended", record)
                now = time.perf_counter()
                if folder and (done() or now - saved >= CHECKPOINTS * cost):
                    write(folder)
                    saved = time.perf_counter()
                    cost = saved - now
                if request.made and not done():
                    raise KeyboardInterrupt(_stopped(state, folder, write))
        finally:
            _each(callbacks, "finished")
    return history


def _record(state: TrainingState, steps: int) -> dict[str, Any]:
    position = state.position
    return {
        "epoch": position.epoch + 1,
        "step": position.epoch * steps + position.step,
        "losses": dict(zip(state.model.objectives, (position.sums / position.step).tolist())),
        "status": {kind.name.lower(): int(position.statuses[kind]) for kind in Status if position.statuses[kind]},
        "lr": float(state.optimizer.param_groups[0]["lr"]),
        "seconds": round(position.seconds, 3),
    }


def _improved(position: Position, reached: float | None) -> bool:
    """Whether to keep these weights: the best so far, the last of equally good ones (until a point is below the
    reference all are), and without a reference point always."""
    if reached is not None and math.isnan(reached):
        raise LossError("the criterion says nothing of the validation front", got=reached, expected="a number")
    better = reached is None or position.best is None or reached > position.best
    equal = reached == position.best
    position.best, position.stale = (reached, 0) if better else (position.best, position.stale + 1)
    return better or equal


def _refuse_fallbacks(record: dict[str, Any], solver: Solver) -> None:
    counts = record["status"]
    share = (counts.get("relaxed", 0) + counts.get("min_norm", 0)) / max(1, sum(counts.values()))
    if share > FALLBACK_SHARE:
        raise LossError(
            f"{type(solver).__name__} fell back on most rays of epoch {record['epoch']}",
            got=", ".join(f"{name}: {count}" for name, count in counts.items()),
            expected=f"fallbacks on at most {FALLBACK_SHARE:.0%} of the rays",
            fix="scale the losses to similar sizes (supervised(..., scale=...)), or use another solver",
        )


def _refuse_broken(state: TrainingState, steps: int) -> None:
    """Nothing that is broken may replace a checkpoint: an epoch must be whole, and its weights finite."""
    position = state.position
    if position.step < steps:
        raise ProblemError(
            "the loader ended an epoch early", got=f"{position.step} full batches", expected=f"{steps}, as it announced"
        )
    if _broken(state):
        raise LossError(
            f"losses, gradients or weights became NaN or infinite in epoch {position.epoch + 1}",
            fix="lower the learning rate, or check the data for NaN; the last checkpoint is from before",
        )


def _broken(state: TrainingState) -> bool:
    invalid = bool(state.position.statuses[Status.INVALID])
    return invalid or not all(p.isfinite().all() for p in state.model.parameters())


def _stopped(state: TrainingState, folder: RunFolder | None, write: Callable[[RunFolder], None] | None) -> str:
    """Save after Ctrl-C, if the run can go on from here, and say how."""
    position = state.position
    where = f"stopped in epoch {position.epoch + 1}, after step {position.step}"
    if folder is None:
        return f"{where}; nothing was saved, since fit had no out="
    if _broken(state):
        return f"{where}; not saved, since weights are NaN or infinite: resume=True continues from the last epoch saved"
    if write:
        write(folder)
        return f"{where}; saved to {folder.path}. Continue with fit(..., out={str(folder.path)!r}, resume=True)"
    return f"{where}; a loader cannot resume inside an epoch: resume=True continues from the last epoch saved"


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


def _each(callbacks: Sequence[Callback], event: str, *args: Any, **kwargs: Any) -> None:
    for callback in callbacks:
        getattr(callback, event)(*args, **kwargs)
