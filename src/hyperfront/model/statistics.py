"""BatchNorm's statistics for prediction, which depend on the ray but not on the batch.

They are estimated on a grid of rays from training samples, and interpolated between the rays of the grid.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from hyperfront.errors import TargetError
from hyperfront.model.normalization import modes_kept
from hyperfront.model.substitution import called
from hyperfront.preferences import das_dennis, interpolation, nearest
from hyperfront.storage.batches import Batch

if TYPE_CHECKING:
    from hyperfront.model.target import Target

Share = Callable[[Callable[[Tensor], Sequence[Tensor]], Tensor], Sequence[Tensor]]
"""``share(work, rays)`` returns the tensors ``work(rays)``, which have a row for each ray."""


def grid(m: int) -> int:
    """Return the partitions of the ray grid of the statistics: the finest grid with at most 32 rays."""
    return max(itertools.takewhile(lambda h: math.comb(h + m - 1, m - 1) <= 32, range(1, 17)), default=1)


def at(target: Target, rays: Tensor) -> Tensor:
    """Return the statistics ``[R, width]`` at the rays, interpolated between grid rays."""
    known = target.statistics
    if not len(known):
        raise TargetError(
            "the BatchNorm statistics of this model were never estimated",
            got="a module with BatchNorm, in evaluation mode, outside hyperfront.fit",
            expected="statistics on a grid of rays",
            fix="call model.calibrate(inputs) with some batches of training inputs",
        )
    if target.knots is not None:
        return known[nearest(rays, rays.new_tensor(target.knots))]
    return interpolation(rays, grid(rays.shape[-1])).to(known) @ known


@torch.no_grad()
def calibrate(
    target: Target, weights: Callable[[Tensor], Tensor], m: int, inputs: Iterable[Batch], share: Share | None = None
) -> None:
    """Estimate the statistics on the ray grid: mean and variance of every BatchNorm's input over ``inputs``."""
    if target.batchnorm != "grid" or not target.normalization.adaptive:
        return
    inputs = list(inputs)
    rays = das_dennis(m, grid(m)) if target.knots is None else torch.tensor(target.knots)
    with modes_kept(target, target):
        target.eval()  # no dropout: only BatchNorm uses the batch as in training
        target.normalization.use_batch()

        def work(rays: Tensor) -> list[Tensor]:
            return [torch.stack([_measured(target, weights(ray[None])[0], inputs) for ray in rays])]

        (rows,) = (share or _alone)(work, rays.to(target.statistics))
    target.statistics = rows.to(target.statistics)


def _measured(target: Target, theta: Tensor, inputs: list[Batch]) -> Tensor:
    def run() -> None:
        for x in inputs:
            called(target.network(theta), x)

    return target.normalization.measure(run, target.shared(), target.statistics)


def _alone(work: Callable[[Tensor], Sequence[Tensor]], rays: Tensor) -> Sequence[Tensor]:
    return work(rays)
