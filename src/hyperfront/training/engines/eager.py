"""The steps of an epoch, one after another in Python."""

from __future__ import annotations

from collections.abc import Callable

import torch

from hyperfront.errors import LossError
from hyperfront.solvers import Status
from hyperfront.training.epochs import Epochs
from hyperfront.training.refusals import check_losses
from hyperfront.training.step import StepResult


class Eager:
    """Runs on any device, with any source of data."""

    name = "eager"

    def __init__(self, epochs: Epochs, step: Callable[..., StepResult] | None = None):
        self.epochs, self.state = epochs, epochs.state
        self.step = step or epochs.state.step

    def run(self, epoch: int, keeps_going: Callable[[], bool]) -> None:
        """Train to the end of one epoch, or until ``keeps_going``, called after every step, returns False."""
        state, position, model = self.state, self.state.position, self.epochs.model
        every = 1 if model.device.type == "cpu" else 50  # reading a loss stops a GPU
        kinds = torch.arange(len(Status), device=model.device, dtype=torch.uint8)
        sums, statuses = (tensor.to(model.device) for tensor in (position.sums, position.statuses))
        model.train()
        state.step.frozen = self.epochs.settings.frozen(epoch)
        for rays, batch in self.epochs.steps(epoch, position.step):
            state.optimizer.zero_grad(set_to_none=True)
            result = self.step(rays, batch, getattr(state.optimizer, "factors", None))
            if position.step % every == 0 and (result.status == Status.INVALID).any():
                where = f"at epoch {epoch + 1}, step {position.step + 1}"
                check_losses(result.losses, model.objectives, state.step.solver, where=where, batch=batch)
                raise LossError(
                    f"the gradients, or the losses in the solver's units, are not valid {where}",
                    fix="lower the learning rate, or the ideal of a normalization",
                )
            state.optimizer.step()
            state.schedule.step()
            sums = sums + result.losses.double().mean(0)
            statuses = statuses + (result.status[:, None] == kinds).sum(0)
            position.step += 1
            if not keeps_going():
                break
        position.sums, position.statuses = sums.cpu(), statuses.cpu()
