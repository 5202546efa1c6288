"""The rays and batches of an epoch, which depend on ``(seed, epoch)`` alone."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import torch
from torch import Tensor

from hyperfront.errors import ProblemError
from hyperfront.preferences import Preferences
from hyperfront.problem import Problem
from hyperfront.problem.sources import looking
from hyperfront.storage.batches import Batch
from hyperfront.training.settings import Settings
from hyperfront.training.state import TrainingState
from hyperfront.training.try_out import try_out
from hyperfront.training.untouched import untouched


def seeded(*numbers: int) -> torch.Generator:
    """Make a generator on the CPU, seeded by numbers such as seed and epoch."""
    seed = np.random.SeedSequence(numbers).generate_state(1, np.uint64)[0] >> np.uint64(1)
    return torch.Generator().manual_seed(int(seed))


class Epochs:
    """The rays and batches of all epochs."""

    def __init__(self, state: TrainingState, problem: Problem, preferences: Preferences, settings: Settings):
        self.state, self.problem, self.preferences, self.settings = state, problem, preferences, settings
        self.model, self.source = state.model, state.step.problem.train.source
        self.length = self.source.steps(settings.batch_size)
        """The number of steps in an epoch."""

    def rays(self, epoch: int) -> tuple[Tensor, torch.Generator]:
        """Draw the rays ``[steps, R, m]`` of ``epoch`` on the CPU; return them and the generator for its batches."""
        generator = seeded(self.settings.seed, epoch)
        count = self.settings.rays_per_step
        rays = self.preferences.sample(self.length * count, self.model.m, generator)
        return rays.view(self.length, count, -1), generator

    def steps(self, epoch: int, skip: int) -> Iterator[tuple[Tensor, Batch]]:
        """Yield the rays and batch of every step of ``epoch``, without the first ``skip``."""
        rays, generator = self.rays(epoch)
        rays = rays.to(next(self.model.hypernet.parameters()))
        batches = self.source.epoch(self.settings.batch_size, generator, self.model.device, skip)
        lesson, shared = self.problem.lesson, self.settings.share_batch
        for own, batch in zip(rays[skip:], batches):
            yield own, batch if lesson is None else lesson(self.problem, own, batch, shared=shared)

    def try_out(self) -> None:
        """Check the objectives and scores on the first step, without changing random numbers or buffers."""
        with untouched(self.model), looking(self.source, self.model.device):
            found = next(self.steps(0, 0), None)
            if found is None:
                raise ProblemError("the training data gives no batch", fix="check the data, or lower the batch size")
            try_out(self.state.step, *found)
