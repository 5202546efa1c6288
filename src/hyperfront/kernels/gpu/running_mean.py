"""The running mean of the losses, in one Triton launch."""

from __future__ import annotations

import triton
import triton.language as tl
from torch import Tensor


@triton.jit
def _running_mean(losses, mean, share, R, m: tl.constexpr, MB: tl.constexpr):
    j = tl.arange(0, MB)
    total = tl.zeros((MB,), tl.float64)
    for r in range(R):
        total += tl.load(losses + r * m + j, j < m, 0.0).to(tl.float64)
    before = tl.load(mean + j, j < m, 0.0)
    tl.store(mean + j, before + tl.where(before > 0, share, 1.0) * (total / R - before), j < m)


def running_mean_on_gpu(losses: Tensor, mean: Tensor, share: float) -> None:
    """Move ``mean [m]``, float64, towards the mean of ``losses [R, m]`` by a share of the way; from zero, move all the
    way."""
    R, m = losses.shape
    _running_mean[(1,)](losses.contiguous(), mean, share, R, m=m, MB=triton.next_power_of_2(m))
