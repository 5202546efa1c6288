"""Mixup: inputs between the training rows, where a teacher has answers and the data have none.

    x = (1 - w) x_i + w x_j + noise * s * N(0, 1),    w ~ U(0, most)

with another row ``j`` of the batch and the deviation ``s`` of each column over the training rows. Whole numbers, such
as codes of categories, come from row ``j`` with probability ``w``. Missing values (NaN) stay missing.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from hyperfront.errors import ProblemError, check_number
from hyperfront.storage.batches import Batch
from hyperfront.storage.nests import map_tensors, tensors


@dataclass(frozen=True)
class Mixup:
    """How far inputs move from the training rows: the largest share ``most`` of another row, and the ``noise``."""

    most: float = 0.5
    noise: float = 0.1

    def __post_init__(self) -> None:
        check_number("most", self.most, 0, 1)
        check_number("noise", self.noise, 0)


class Mixed:
    """The augmentation that draws inputs by ``mixup``: a batch becomes the pair of its drawn inputs and itself.

    ``inputs(batch)`` must pass tensors of the batch on, so that they can be replaced in it.
    """

    def __init__(self, mixup: Mixup, inputs: Any, data: Batch):
        self.mixup, self.inputs = mixup, inputs
        given = tensors(inputs(data))
        if not given or any(not any(own is tensor for own in tensors(data)) for tensor in given):
            raise ProblemError(
                "the inputs of this problem cannot be mixed, since they are computed from the batch",
                fix='draw="rows" takes the training rows, with the augmentation of the problem',
            )
        self.deviations = [_deviation(tensor) if tensor.is_floating_point() else None for tensor in given]
        self.width = sum(d.numel() for d in self.deviations if d is not None)

    def draw(self, rows: int, generator: torch.Generator) -> Tensor:
        """Draw ``[rows, 3 + width]``: share, order and choice of the other row, and the noise."""
        uniform = torch.rand(rows, 3, generator=generator)
        return torch.cat([uniform, torch.randn(rows, self.width, generator=generator)], dim=1)

    def __call__(self, batch: Batch, numbers: Tensor) -> tuple[Batch, Batch]:
        share, other = self.mixup.most * numbers[:, 0], numbers[:, 1].argsort()
        taken, noise = numbers[:, 2] < share, iter(self._noise(numbers[:, 3:]))
        made = {}
        for tensor in tensors(self.inputs(batch)):
            along = (-1, *(1 for _ in tensor.shape[1:]))
            if tensor.is_floating_point():
                made[id(tensor)] = tensor.lerp(tensor[other], share.view(along).to(tensor)) + next(noise).to(tensor)
            else:
                made[id(tensor)] = torch.where(taken.view(along), tensor[other], tensor)
        return map_tensors(lambda tensor: made.get(id(tensor), tensor), batch), batch

    def _noise(self, numbers: Tensor) -> list[Tensor]:
        deviations = [d.to(numbers) for d in self.deviations if d is not None]
        parts = numbers.split([d.numel() for d in deviations], dim=1)
        return [self.mixup.noise * d * part.reshape(-1, *d.shape) for d, part in zip(deviations, parts)]


def _deviation(values: Tensor) -> Tensor:
    """Compute the standard deviation of each column over the rows that have a value."""
    known = values.isfinite()
    filled, count = torch.where(known, values, 0.0).double(), known.sum(0).clamp_min(1)
    mean = filled.sum(0) / count
    return (torch.where(known, filled - mean, 0.0).square().sum(0) / count).sqrt()
