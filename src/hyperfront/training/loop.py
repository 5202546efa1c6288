"""``fit``: the training loop around the step of Algorithm 1. A convenience; everything in it works without it.

Randomness: the rays, the order of the data and nothing else of epoch ``e`` come from a generator seeded by
``(seed, e)`` on the CPU, so that a run can be resumed in the middle of an epoch and a GPU sees the same rays. Dropout
and user code draw from PyTorch's global generator, which is seeded at the start, kept in the checkpoint, and given back
to the caller as it was.
"""

from __future__ import annotations

import itertools
import math
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from hyperfront import metrics
from hyperfront import preferences as rays_module
from hyperfront.errors import CheckpointError, HyperfrontError, LossError, ProblemError
from hyperfront.front import evaluate
from hyperfront.model import ParetoModel
from hyperfront.preferences import Dirichlet, Preferences
from hyperfront.problem import Problem
from hyperfront.runs import Run, RunFolder
from hyperfront.solvers import EPO, Solver, Status
from hyperfront.training.callbacks import Callback, JsonLines, Progress
from hyperfront.training.interrupt import ctrl_c
from hyperfront.training.record import compare, describe, environment, units
from hyperfront.training.state import TrainingState
from hyperfront.training.step import Step, check, check_losses

FALLBACK_SHARE = 0.5
"""A solver that fell back on more than this share of an epoch's rays is not the solver it is named after: an error."""
CALIBRATION_BATCHES = 8

OptimizerFactory = Callable[[Iterable[nn.Parameter]], torch.optim.Optimizer]
ScheduleFactory = Callable[[torch.optim.Optimizer], torch.optim.lr_scheduler.LRScheduler]


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
    optimizer: OptimizerFactory | None = None,
    lr: float = 1e-3,
    schedule: str | ScheduleFactory = "cosine",
    warmup: int = 0,
    seed: int = 0,
    out: str | Path | None = None,
    resume: bool = False,
    device: str | torch.device | None = None,
    validate_every: int = 1,
    validation_rays: int | Tensor | Sequence = 25,
    patience: int | None = None,
    checkpoint_every: int = 1,
    callbacks: Sequence[Callback] | None = None,
) -> Run:
    """Train ``model`` on ``problem``; afterwards it holds the weights with the best validation hypervolume.

    ``solver`` is EPO and ``preferences`` Dirichlet(0.2) unless said. ``optimizer`` makes an optimiser from parameters
    (Adam with ``lr`` by default). ``schedule`` is ``"cosine"``, ``"constant"`` (both after ``warmup`` steps from 0), or
    makes a scheduler from the optimiser; it is stepped after every step. ``patience`` validations without a better
    hypervolume end the run.

    With ``out``, the folder holds ``config.json`` and ``environment.json`` (before the first step), ``metrics.jsonl``,
    ``last.safetensors`` and ``best.safetensors``, and at the end ``front.json``; ``resume=True`` goes on there exactly.
    Problems without data have nothing to select on: their last weights are kept, and there is no ``best``.
    """
    solver, preferences = solver or EPO(), preferences or Dirichlet()
    steps = _check_settings(model, problem, epochs, rays_per_step, batch_size, validate_every, checkpoint_every)
    model.to(device or model.device)
    table = rays_module.rays(validation_rays, model.m) if isinstance(validation_rays, int) else validation_rays
    table = rays_module.validate(table, model.m, model.objectives).double().cpu()
    model.record = {
        **(problem.identity or {}),
        "solver": type(solver).__name__,
        "convention": solver.convention,
        "units": units(problem),
        "seed": seed,
    }
    config = model.document() | {
        "solver": describe(solver),
        "preferences": describe(preferences),
        "reference": describe(problem.reference),
        "steps_per_epoch": steps,
        "validation_rays": describe(table),
    }
    local = locals()
    names = "epochs rays_per_step batch_size share_batch optimizer lr schedule warmup seed validate_every patience"
    config |= {name: describe(local[name]) for name in names.split()}

    callbacks = [Progress()] if callbacks is None else list(callbacks)
    folder = None
    if out is not None:
        folder = RunFolder(Path(out))
        _open(folder, config, resume, model.device)
        callbacks = [JsonLines(folder.metrics), *callbacks]

    with torch.random.fork_rng(devices=[model.device] if model.device.type == "cuda" else []):
        torch.manual_seed(seed)
        made = optimizer(model.parameters()) if optimizer else torch.optim.Adam(model.parameters(), lr=lr)
        state = TrainingState(
            model,
            Step(model, problem, solver, share_batch=share_batch),
            made,
            _schedule(schedule, made, epochs * steps, warmup),
        )
        if folder and resume and folder.last.exists():
            state.load(folder.last)
        best = _best_so_far(folder, state)
        train = _Epochs(state, problem, preferences, rays_per_step, batch_size, seed)
        history = _train(
            train, folder, callbacks, table, epochs, steps, validate_every, checkpoint_every, patience, best
        )
    if best:
        model.load_state_dict(best)
    model.eval()
    front = evaluate(model, problem.val, table) if "val" in problem.sources else None
    if folder and front:
        front.save(folder.front)
    return Run(model=model, front=front, history=history, folder=folder)


class _Epochs:
    """Epochs of training steps."""

    def __init__(
        self,
        state: TrainingState,
        problem: Problem,
        preferences: Preferences,
        rays_per_step: int,
        batch_size: int,
        seed: int,
    ):
        self.state, self.problem, self.preferences = state, problem, preferences
        self.rays_per_step, self.batch_size, self.seed = rays_per_step, batch_size, seed
        self.source, self.model = problem.train.source, state.model

    def steps(self, epoch: int, skip: int) -> Iterable[tuple[Tensor, Any]]:
        """The rays and batch of every step of ``epoch``, without the first ``skip``."""
        seed = int(np.random.SeedSequence([self.seed, epoch]).generate_state(1, np.uint64)[0] >> np.uint64(1))
        generator = torch.Generator().manual_seed(seed)
        count = self.source.steps(self.batch_size)
        rays = self.preferences.sample(count * self.rays_per_step, self.model.m, generator)
        rays = rays.to(next(self.model.hypernet.parameters())).split(self.rays_per_step)
        yield from zip(rays[skip:], self.source.epoch(self.batch_size, generator, self.model.device, skip))

    def try_out(self) -> None:
        """Check the objectives on the first step; it leaves the random numbers as they were."""
        cuda = [self.model.device] if self.model.device.type == "cuda" else []
        with torch.random.fork_rng(devices=cuda):
            found = next(iter(self.steps(0, 0)), None)
            if found is None:
                raise ProblemError("the training data gives no batch", fix="check the data, or lower the batch size")
            check(self.state.step, *found)

    def run(self, epoch: int, stepped: Callable[[], bool]) -> bool:
        """Train for (the rest of) one epoch; False if ``stepped`` asked to stop."""
        state, position = self.state, self.state.position
        every = 1 if self.model.device.type == "cpu" else 50  # looking at a loss stops a GPU
        kinds = torch.arange(5, device=self.model.device, dtype=torch.uint8)
        sums, statuses = (t.to(self.model.device) for t in (position.sums, position.statuses))
        self.model.train()
        goes_on = True
        for rays, batch in self.steps(epoch, position.step):
            state.optimizer.zero_grad(set_to_none=True)
            result = state.step(rays, batch)
            if position.step % every == 0 and (result.status == Status.INVALID).any():
                where = f"at epoch {epoch + 1}, step {position.step + 1}"
                check_losses(result.losses, self.model.objectives, state.step.solver, where=where)
                raise LossError(f"the solver could not use the losses or gradients {where}", got=result.losses.tolist())
            state.optimizer.step()
            state.schedule.step()
            sums = sums + result.losses.double().mean(0)
            statuses = statuses + (result.status[:, None] == kinds).sum(0)
            position.step += 1
            if not stepped():
                goes_on = False
                break
        position.sums, position.statuses = sums.cpu(), statuses.cpu()
        return goes_on


def _train(
    train: _Epochs,
    folder: RunFolder | None,
    callbacks: Sequence[Callback],
    rays: Tensor,
    epochs: int,
    steps: int,
    validate_every: int,
    checkpoint_every: int,
    patience: int | None,
    best: dict[str, Tensor],
) -> list[dict[str, Any]]:
    state, problem, model = train.state, train.problem, train.model
    position, history = state.position, folder.records() if folder else []
    history = [record for record in history if record["epoch"] <= position.epoch]
    done = position.epoch == epochs or (patience is not None and position.stale >= patience)
    if position.epoch == position.step == 0:
        train.try_out()
    with ctrl_c() as request:
        _each(callbacks, "started", epochs=epochs, steps=steps, epoch=position.epoch, step=position.step)
        try:
            while not done:
                epoch, start = position.epoch, time.perf_counter()

                def stepped() -> bool:
                    _each(callbacks, "stepped")
                    return not request.made

                if not train.run(epoch, stepped) and position.step < steps:
                    raise KeyboardInterrupt(_stop_message(state, folder, train.source.exact))
                record = _record(state, model, position, steps, time.perf_counter() - start)
                last = epoch + 1 == epochs
                if "val" in problem.sources and ((epoch + 1) % validate_every == 0 or last):
                    record["validation"] = _validate(model, problem, rays, train.batch_size)
                    if problem.has_data and _improved(position, record["validation"]["hypervolume"]):
                        best.clear()
                        best.update({name: tensor.detach().clone() for name, tensor in model.state_dict().items()})
                        if folder:
                            model.save(folder.best)
                history.append(record)
                position.epoch, position.step = epoch + 1, 0
                position.sums, position.statuses = torch.zeros_like(position.sums), torch.zeros_like(position.statuses)
                _each(callbacks, "epoch_ended", record)
                done = last or (patience is not None and position.stale >= patience)
                if folder and (done or (epoch + 1) % checkpoint_every == 0 or request.made):
                    state.save(folder.last)
                _refuse_fallbacks(record, state.step.solver)
                if request.made and not done:
                    raise KeyboardInterrupt(_stop_message(state, folder, True))
        finally:
            _each(callbacks, "finished")
    return history


def _validate(model: ParetoModel, problem: Problem, rays: Tensor, batch_size: int) -> dict[str, Any]:
    inputs = problem.train.source.batches(batch_size, model.device) if model.target.norms else ()
    model.calibrate(problem.inputs(batch) for batch in itertools.islice(inputs, CALIBRATION_BATCHES))
    front = evaluate(model, problem.val, rays)
    return {
        "hypervolume": metrics.hypervolume(front.losses, front.reference) if front.reference else None,
        "uniformity": front.uniformity(),
        "losses": front.losses.tolist(),
        "scores": {name: values.tolist() for name, values in front.scores.items()},
    }


def _record(state: TrainingState, model: ParetoModel, position: Any, steps: int, seconds: float) -> dict[str, Any]:
    means = (position.sums / max(position.step, 1)).tolist()
    return {
        "epoch": position.epoch + 1,
        "step": position.epoch * steps + position.step,
        "losses": dict(zip(model.objectives, means)),
        "status": {kind.name.lower(): int(position.statuses[kind]) for kind in Status if position.statuses[kind]},
        "lr": float(state.optimizer.param_groups[0]["lr"]),
        "seconds": round(seconds, 3),
    }


def _improved(position: Any, hypervolume: float | None) -> bool:
    """Whether these are the best weights so far; without a reference point the last ones always are."""
    if hypervolume is None or position.best is None or hypervolume > position.best:
        position.best, position.stale = hypervolume, 0
        return True
    position.stale += 1
    return False


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


def _stop_message(state: TrainingState, folder: RunFolder | None, exact: bool) -> str:
    where = f"stopped in epoch {state.position.epoch + 1}, after step {state.position.step}"
    if folder is None:
        return f"{where}; nothing was saved, since fit had no out="
    if exact:
        state.save(folder.last)
        return f"{where}; saved to {folder.path}. Continue with fit(..., out={str(folder.path)!r}, resume=True)"
    return f"{where}; a loader cannot resume inside an epoch: resume=True continues from the last epoch saved"


def _best_so_far(folder: RunFolder | None, state: TrainingState) -> dict[str, Tensor]:
    if folder is None or state.position.best is None or not folder.best.exists():
        return {}
    return {name: tensor.to(state.model.device) for name, tensor in folder.tensors("best").items()}


def _open(folder: RunFolder, config: dict[str, Any], resume: bool, device: torch.device) -> None:
    """Write config and environment before the first step, or check that a resumed run has the same configuration."""
    if folder.config.exists():
        if not resume:
            raise CheckpointError(
                "the folder already holds a run", got=folder.path, fix="resume=True, or another folder for out="
            )
        compare(folder.read_config(), config)
    else:
        folder.create(config, environment(device))


def _schedule(
    schedule: str | ScheduleFactory, optimizer: torch.optim.Optimizer, total: int, warmup: int
) -> torch.optim.lr_scheduler.LRScheduler:
    if not isinstance(schedule, str):
        return schedule(optimizer)
    if schedule not in ("cosine", "constant"):
        raise HyperfrontError("unknown schedule", got=repr(schedule), expected="cosine, constant, or a function")

    def factor(step: int) -> float:
        ramp = min(1.0, (step + 1) / (warmup + 1))
        progress = min(1.0, max(0, step - warmup) / max(1, total - warmup))
        return ramp * (0.5 * (1 + math.cos(math.pi * progress)) if schedule == "cosine" else 1.0)

    return torch.optim.lr_scheduler.LambdaLR(optimizer, factor)


def _check_settings(
    model: ParetoModel,
    problem: Problem,
    epochs: int,
    rays_per_step: int,
    batch_size: int,
    validate_every: int,
    checkpoint_every: int,
) -> int:
    """The number of steps in an epoch, once everything fits together."""
    if tuple(model.objectives) != tuple(problem.objectives):
        raise ProblemError(
            "model and problem have different objectives", got=model.objectives, expected=problem.objectives
        )
    given = {
        "epochs": epochs,
        "rays_per_step": rays_per_step,
        "batch_size": batch_size,
        "validate_every": validate_every,
        "checkpoint_every": checkpoint_every,
    }
    for name, value in given.items():
        if not isinstance(value, int) or value < 1:
            raise HyperfrontError(f"{name} is not a positive number", got=value, expected="an integer >= 1")
    steps = problem.train.source.steps(batch_size)
    if steps < 1:
        raise ProblemError("the training data gives no full batch", fix="lower the batch size")
    return steps


def _each(callbacks: Sequence[Callback], event: str, *args: Any, **kwargs: Any) -> None:
    for callback in callbacks:
        getattr(callback, event)(*args, **kwargs)
