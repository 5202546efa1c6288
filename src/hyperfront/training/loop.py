"""The training loop around the step of Algorithm 1: epochs until the end, each with its validation, its checkpoint and
its record. Ctrl-C saves and says how to go on; what is broken replaces nothing."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from typing import Any

from torch import Tensor

from hyperfront.errors import LossError, ProblemError
from hyperfront.front import Front
from hyperfront.solvers import Solver, Status
from hyperfront.storage import checkpoint
from hyperfront.training.callbacks import Callback, tell
from hyperfront.training.engines import Engine
from hyperfront.training.epochs import Epochs
from hyperfront.training.interrupt import ctrl_c
from hyperfront.training.runs import RunFolder
from hyperfront.training.state import Position, TrainingState
from hyperfront.training.validation import calibrate, validate

FALLBACK_SHARE = 0.5
"""A solver that fell back on more than this share of an epoch's rays is not the solver it is named after: an error."""
CHECKPOINTS = 20
"""A checkpoint is due when its last writing has been paid for by this many times as much training."""


def train_to_the_end(
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
            tell(callbacks, "stepped")
            return not request.made

        tell(callbacks, "started", epochs=settings.epochs, steps=steps, epoch=position.epoch, step=position.step)
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
                tell(callbacks, "epoch_ended", record)
                now = time.perf_counter()
                if folder and (done() or now - saved >= CHECKPOINTS * cost):
                    write(folder)
                    saved = time.perf_counter()
                    cost = saved - now
                if request.made and not done():
                    raise KeyboardInterrupt(_stopped(state, folder, write))
        finally:
            tell(callbacks, "finished")
    return history


def _record(state: TrainingState, steps: int) -> dict[str, Any]:
    position = state.position
    return {
        "epoch": position.epoch + 1,
        "step": position.epoch * steps + position.step,
        "losses": dict(zip(state.model.objectives, (position.sums / position.step).tolist())),
        "status": {kind.name.lower(): int(position.statuses[kind]) for kind in Status if position.statuses[kind]},
        "lr": float(state.optimizer.param_groups[0]["lr"]),
        "seconds": round(position.seconds, 6),
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
