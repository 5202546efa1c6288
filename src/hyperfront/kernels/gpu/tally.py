"""Add the results of a step to the record of its epoch, in one Triton launch."""

from __future__ import annotations

import triton
import triton.language as tl
from torch import Tensor


@triton.jit
def _tally(
    losses, status, sums, counts, t, R, m: tl.constexpr, MB: tl.constexpr, RB: tl.constexpr, KINDS: tl.constexpr
):
    j = tl.arange(0, MB)
    total = tl.zeros((MB,), tl.float64)
    for start in range(0, R, RB):
        r = start + tl.arange(0, RB)
        found = tl.load(losses + r[:, None] * m + j[None, :], (r < R)[:, None] & (j < m)[None, :], 0.0)
        total += tl.sum(found.to(tl.float64), 0)
    tl.store(sums + j, tl.load(sums + j, j < m, 0.0) + total / R, j < m)
    for kind in tl.static_range(KINDS):
        count = tl.zeros((), tl.int64)
        for start in range(0, R, RB):
            r = start + tl.arange(0, RB)
            count += tl.sum((tl.load(status + r, r < R, 255) == kind).to(tl.int64), 0)
        tl.store(counts + kind, tl.load(counts + kind) + count)
    tl.store(t, tl.load(t) + 1)


def tally_on_gpu(losses: Tensor, status: Tensor, sums: Tensor, counts: Tensor, t: Tensor) -> None:
    """Add the mean of ``losses [R, m]`` to ``sums [m]``, each ``status [R]`` to its count, and 1 to ``t``."""
    R, m = losses.shape
    rows = min(1024, triton.next_power_of_2(R))
    _tally[(1,)](
        losses.contiguous(), status, sums, counts, t, R, m=m, MB=triton.next_power_of_2(m), RB=rows, KINDS=len(counts)
    )
