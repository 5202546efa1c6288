"""The rays and batches of an epoch, which depend on ``(seed, epoch)`` alone."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import torch
from torch import Tensor

from hyperfront.errors import ProblemError, RayError, shown
from hyperfront.preferences import Preferences
from hyperfront.problem import Problem
from hyperfront.problem.sources import TensorSource, looking
from hyperfront.storage.batches import Batch
from hyperfront.training.agreement import checksum, refuse_others
from hyperfront.training.settings import Settings
from hyperfront.training.shares import check_means, own_rows
from hyperfront.training.state import TrainingState
from hyperfront.training.step import Step
from hyperfront.training.team import ALONE, Team
from hyperfront.training.try_out import try_out
from hyperfront.training.untouched import untouched


def seeded(*numbers: int) -> torch.Generator:
    """Make a generator on the CPU, seeded by numbers such as seed and epoch."""
    return torch.Generator().manual_seed(seed_of(*numbers))


def seed_of(*numbers: int) -> int:
    """Mix numbers to one seed."""
    return int(np.random.SeedSequence(numbers).generate_state(1, np.uint64)[0] >> np.uint64(1))


class Epochs:
    """The rays and batches of all epochs."""

    def __init__(
        self,
        state: TrainingState,
        problem: Problem,
        preferences: Preferences,
        settings: Settings,
        team: Team = ALONE,
    ):
        self.state, self.problem, self.preferences, self.settings = state, problem, preferences, settings
        self.team = team
        self.model, self.source = state.model, state.step.problem.train.source
        self.length = self.source.steps(settings.batch_size)
        """The number of steps in an epoch."""

    def rays(self, epoch: int) -> tuple[Tensor, torch.Generator]:
        """Draw the rays ``[steps, R, m]`` of ``epoch`` on the CPU; return them and the generator for its batches."""
        generator = seeded(self.settings.seed, epoch)
        count = self.settings.rays_per_step
        rays = self.preferences.sample(self.length * count, self.model.m, generator)
        if not isinstance(rays, Tensor) or rays.shape != (self.length * count, self.model.m):
            raise RayError(
                "the preferences do not draw rays",
                got=shown(rays) if not isinstance(rays, Tensor) else list(rays.shape),
                expected=f"a tensor [{self.length * count}, {self.model.m}]",
            )
        return rays.view(self.length, count, -1), generator

    def steps(self, epoch: int, skip: int) -> Iterator[tuple[Tensor, Batch]]:
        """Yield the rays and batch of every step of ``epoch``, without the first ``skip``."""
        rays, generator = self.rays(epoch)
        rays = rays.to(next(self.model.hypernet.parameters()))
        batches = self.source.epoch(self.settings.batch_size, generator, self.model.device, skip)
        batches = batches if self.team.alone else self._own(batches, epoch, skip)
        lesson, shared = self.problem.lesson, self.settings.share_batch
        for own, batch in zip(rays[skip:], batches):
            yield own, batch if lesson is None else lesson(self.problem, own, batch, shared=shared)

    def _own(self, batches: Iterator[Batch], epoch: int, step: int) -> Iterator[Batch]:
        """Yield the rank's rows of every batch. All ranks read the same batches: PyTorch's random numbers are seeded
        alike for a loader, and by rank for the step (dropout). So they depend on the step alone, and any number of
        processes can continue."""
        while True:
            torch.manual_seed(seed_of(self.settings.seed, epoch, step))
            batch = next(batches, None)
            if batch is None:
                return
            if not isinstance(self.source, TensorSource) and step == 0:
                refuse_others([{"first batch": each} for each in self.team.gather(checksum(batch))])
            torch.manual_seed(seed_of(self.settings.seed, epoch, step, self.team.rank))
            yield own_rows(batch, self.team, self.parts)
            step += 1

    @property
    def parts(self) -> int:
        """The number of parts into which a batch is split among rays."""
        return self.settings.rays_per_step if self.state.step.split else 1

    def try_out(self) -> None:
        """Check the objectives and scores on the first step, without changing random numbers or buffers."""
        with untouched(self.model), looking(self.source, self.model.device):
            whole = self.team.alone and self.settings.accumulate == 1
            found = next(self.steps(0, 0), None) if whole else self._first()
            if found is None:
                raise ProblemError("the training data gives no batch", fix="check the data, or lower the batch size")
            step = self.state.step
            if not whole:  # the step without other ranks
                step = Step(self.model, self.problem, step.solver, share_batch=self.settings.share_batch)
            try_out(step, *found)

    def _first(self) -> tuple[Tensor, Batch] | None:
        """The first rays and the rank's rows of the first batch, after a look at the losses of the whole batch."""
        rays, generator = self.rays(0)
        rays = rays[0].to(next(self.model.hypernet.parameters()))
        batch = next(self.source.epoch(self.settings.batch_size, generator, self.model.device, 0), None)
        if batch is None:
            return None
        for size in {self.team.size, self.settings.accumulate} - {1}:
            check_means(self.problem, self.model, rays, batch, size)
        return rays, own_rows(batch, self.team, self.parts)
