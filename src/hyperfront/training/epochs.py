"""Epochs of training steps, drawn from ``(seed, epoch)`` alone."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import torch
from torch import Tensor

from hyperfront.batches import Batch
from hyperfront.errors import LossError, ProblemError
from hyperfront.preferences import Preferences
from hyperfront.problem import Problem
from hyperfront.solvers import Status
from hyperfront.training.settings import Settings
from hyperfront.training.state import TrainingState
from hyperfront.training.step import check, check_losses


class Epochs:
    """Runs the steps of one epoch after another."""

    def __init__(self, state: TrainingState, problem: Problem, preferences: Preferences, settings: Settings):
        self.state, self.problem, self.preferences, self.settings = state, problem, preferences, settings
        self.model, self.source = state.model, problem.train.source

    def steps(self, epoch: int, skip: int) -> Iterator[tuple[Tensor, Batch]]:
        """The rays and batch of every step of ``epoch``, without the first ``skip``."""
        seed = np.random.SeedSequence([self.settings.seed, epoch]).generate_state(1, np.uint64)[0] >> np.uint64(1)
        generator = torch.Generator().manual_seed(int(seed))
        size, count = self.settings.batch_size, self.settings.rays_per_step
        rays = self.preferences.sample(self.source.steps(size) * count, self.model.m, generator)
        rays = rays.to(next(self.model.hypernet.parameters())).split(count)
        yield from zip(rays[skip:], self.source.epoch(size, generator, self.model.device, skip))

    def try_out(self) -> None:
        """Check the objectives and scores on the first step; random numbers and buffers stay as they were."""
        cuda = [self.model.device] if self.model.device.type == "cuda" else []
        buffers = {name: buffer.clone() for name, buffer in self.model.named_buffers()}
        with torch.random.fork_rng(devices=cuda):
            found = next(self.steps(0, 0), None)
            if found is None:
                raise ProblemError("the training data gives no batch", fix="check the data, or lower the batch size")
            check(self.state.step, *found)
        for name, buffer in self.model.named_buffers():
            buffer.copy_(buffers[name])

    def run(self, epoch: int, goes_on: Callable[[], bool]) -> None:
        """Train for (the rest of) one epoch, or until ``goes_on``, asked after every step, says no."""
        state, position = self.state, self.state.position
        every = 1 if self.model.device.type == "cpu" else 50  # looking at a loss stops a GPU
        kinds = torch.arange(len(Status), device=self.model.device, dtype=torch.uint8)
        sums, statuses = (tensor.to(self.model.device) for tensor in (position.sums, position.statuses))
        self.model.train()
        for rays, batch in self.steps(epoch, position.step):
            state.optimizer.zero_grad(set_to_none=True)
            result = state.step(rays, batch)
            if position.step % every == 0 and (result.status == Status.INVALID).any():
                where = f"at epoch {epoch + 1}, step {position.step + 1}"
                check_losses(result.losses, self.model.objectives, state.step.solver, where=where)
                raise LossError(
                    f"the gradients, or the losses in the solver's units, are not valid {where}",
                    fix="lower the learning rate, or the ideal of a normalisation",
                )
            state.optimizer.step()
            state.schedule.step()
            sums = sums + result.losses.double().mean(0)
            statuses = statuses + (result.status[:, None] == kinds).sum(0)
            position.step += 1
            if not goes_on():
                break
        position.sums, position.statuses = sums.cpu(), statuses.cpu()
