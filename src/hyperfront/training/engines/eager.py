"""The steps of an epoch, one after another in Python."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from hyperfront.errors import LossError
from hyperfront.solvers import Status
from hyperfront.storage.batches import Batch
from hyperfront.training.epochs import Epochs
from hyperfront.training.refusals import check_losses
from hyperfront.training.step import StepResult

TakeStep = Callable[..., StepResult]
"""``(rays, batch, factors)``: computes the gradient of a step."""
Choose = Callable[[Tensor, Batch], TakeStep]
"""``(rays, batch)``: chooses the function that takes this step."""


class Eager:
    """Runs on any device, with any source of data, one function for all steps or one that is chosen at each step."""

    name = "eager"

    def __init__(self, epochs: Epochs, step: TakeStep | None = None, *, choose: Choose | None = None):
        self.epochs, self.state = epochs, epochs.state
        self.step, self.choose = step or epochs.state.step, choose

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
            step = self.choose(rays, batch) if self.choose else self.step
            result = step(rays, batch, getattr(state.optimizer, "factors", None))
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
