"""The training loop: epochs until the end, each with its validation, checkpoint and record.

Ctrl-C, SIGTERM and SIGHUP save and say how to continue. A state with broken weights never replaces a checkpoint.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from hyperfront.errors import HyperfrontError, LossError, ProblemError, shown
from hyperfront.errors.tables import as_table
from hyperfront.front import Front
from hyperfront.solvers import Solver, Status
from hyperfront.training.agreement import check_weights
from hyperfront.training.callbacks import tell
from hyperfront.training.checkpoints import Checkpoints
from hyperfront.training.engines import Engine
from hyperfront.training.epochs import Epochs
from hyperfront.training.interrupt import Request, stop_requests
from hyperfront.training.job import Job
from hyperfront.training.state import Position, TrainingState
from hyperfront.training.validation import calibrate, validate

FALLBACK_SHARE = 0.5
"""Training ends with an error if the solver fell back on more than this share of an epoch's rays."""
TOGETHER = 10
"""The number of steps after which processes that train together agree whether to stop."""


def run_epochs(job: Job, epochs: Epochs, engine: Engine, checkpoints: Checkpoints) -> list[dict[str, Any]]:
    """Train to the end of the run, and return one record for each epoch, also for those before a resumption."""
    state, position, steps = epochs.state, epochs.state.position, epochs.length
    history = [record for record in (job.folder.records() if job.folder else []) if record["epoch"] <= position.epoch]
    started = {"epochs": job.settings.epochs, "steps": steps, "epoch": position.epoch, "step": position.step}
    with stop_requests() as request:
        keeps_going = _KeepsGoing(job, epochs, checkpoints, request)
        tell(job.callbacks, "started", **started)
        try:
            while not _done(job, position):
                start = time.perf_counter()
                engine.run(position.epoch, keeps_going)
                position.seconds += time.perf_counter() - start
                if position.step < steps and keeps_going.paused and not _broken(state):
                    checkpoints.write()
                    continue
                if position.step < steps and keeps_going.stopping:
                    raise request.stopped(_stop(checkpoints, resumable=epochs.source.exact))
                record = _record(state, steps)
                _refuse_broken(state, steps)
                check_weights(job, position.epoch + 1)
                state.step.ideals.warn(record["losses"])
                _refuse_fallbacks(record, job.solver)  # before anything of the epoch is kept
                record |= _end_epoch(job, position.begin(position.epoch + 1), checkpoints)
                history.append(record)
                tell(job.callbacks, "epoch_ended", record)
                done = _done(job, position)
                checkpoints.write_if_due(done=done)
                if keeps_going.asked() and not done:
                    raise request.stopped(_stop(checkpoints, resumable=True))
        finally:
            tell(job.callbacks, "finished")
    return history


class _KeepsGoing:
    """Decides after every step whether the epoch continues. It stops on request, and pauses to write a checkpoint."""

    def __init__(self, job: Job, epochs: Epochs, checkpoints: Checkpoints, request: Request):
        self.callbacks, self.checkpoints, self.request = job.callbacks, checkpoints, request
        self.resumable, self.team, self.position = epochs.source.exact, job.team, epochs.state.position
        self.stopping = self.paused = False

    def __call__(self) -> bool:
        tell(self.callbacks, "stepped")
        if not self.team.alone and self.position.step % TOGETHER:
            return True
        self.stopping = self.asked()
        self.paused = not self.stopping and self.resumable and self.checkpoints.due_within()
        return not (self.stopping or self.paused)

    def asked(self) -> bool:
        """Whether a signal came, to any process of the job."""
        if self.team.alone:
            return self.request.made
        number = self.team.largest(self.request.number or 0)
        self.request.number = self.request.number or number or None
        return number > 0


def _done(job: Job, position: Position) -> bool:
    patience = job.settings.patience
    return position.epoch == job.settings.epochs or (patience is not None and position.stale >= patience)


def _end_epoch(job: Job, epoch: int, checkpoints: Checkpoints) -> dict[str, Any]:
    """Validate after ``epoch`` epochs, if it is due, and return the additions to the epoch's record."""
    settings, position = job.settings, checkpoints.state.position
    last = epoch == settings.epochs
    if not job.validates or not (last or epoch % settings.validate_every == 0):
        if last:
            calibrate(job.model, job.problem, settings.batch_size, job.team)
        return {}
    front, summary = validate(job.model, job.problem, job.rays, settings.batch_size, job.team)
    reached = summary["hypervolume"] if job.criterion is None else _measured(job.criterion, front)
    if job.problem.has_data and _improved(position, reached):
        checkpoints.keep_best()
    return {"validation": summary}


def _measured(criterion: Callable[[Front], float], front: Front) -> float:
    """Return the number that the user's criterion has for a front."""
    if not callable(criterion):
        raise HyperfrontError("criterion is no function", got=shown(criterion), expected="criterion(front)")
    return float(as_table("values of the criterion", criterion(front), 0, error=LossError))


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
    """Whether to keep these weights: they are the best so far, or as good as the best (with a hypervolume of 0, for
    example), or there is no reference point."""
    if reached is not None and math.isnan(reached):
        raise LossError("the criterion returned NaN for the validation front", got=reached, expected="a number")
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
    """Raise an error before broken weights or an incomplete epoch replace a checkpoint."""
    position = state.position
    if _broken(state):
        raise LossError(
            f"losses, gradients or weights became NaN or infinite in epoch {position.epoch + 1}",
            fix="lower the learning rate, or check the data for NaN; the last checkpoint is older, and valid",
        )
    if position.step < steps:
        raise ProblemError(
            "the loader ended an epoch early", got=f"{position.step} full batches", expected=f"{steps}, by its length"
        )


def _broken(state: TrainingState) -> bool:
    invalid = bool(state.position.statuses[Status.INVALID])
    return invalid or not all(_finite(p.detach()) for p in state.model.parameters())


def _finite(tensor: Tensor) -> bool:
    """Whether all numbers are finite. ``isfinite`` would need more memory than the tensor."""
    numbers = torch.view_as_real(tensor) if tensor.is_complex() else tensor
    return not tensor.numel() or all(bound.isfinite() for bound in numbers.aminmax())  # NaN is both bounds


def _stop(checkpoints: Checkpoints, *, resumable: bool) -> str:
    """Save after a signal, if the run can resume at this step, and return a message that says how to continue."""
    folder, position = checkpoints.folder, checkpoints.state.position
    where = f"stopped in epoch {position.epoch + 1}, after step {position.step}"
    if folder is None:
        return f"{where}; nothing was saved, since fit had no out="
    if _broken(checkpoints.state):
        return f"{where}; not saved, since weights are NaN or infinite: resume=True continues from the last epoch saved"
    if not resumable:
        return f"{where}; a loader cannot resume inside an epoch: resume=True continues from the last epoch saved"
    checkpoints.write()
    return f"{where}; saved to {folder.path}. Continue with fit(..., out={str(folder.path)!r}, resume=True)"
