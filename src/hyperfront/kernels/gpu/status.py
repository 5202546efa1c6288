"""Mark the rays with losses that are zero or not finite, in one Triton launch."""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor


@triton.jit
def _status(losses, status, m: tl.constexpr, MB: tl.constexpr, FLOORED: tl.constexpr, INVALID: tl.constexpr):
    j = tl.arange(0, MB)
    found = tl.load(losses + tl.program_id(0) * m + j, j < m, 1.0)
    zero = tl.max((found == 0).to(tl.int32), 0)
    bad = tl.max((found * 0 != 0).to(tl.int32), 0)  # 0 times NaN or infinity is NaN
    tl.store(status + tl.program_id(0), tl.where(bad > 0, INVALID, zero * FLOORED).to(tl.uint8))


def status_on_gpu(losses: Tensor, *, floored: int, invalid: int) -> Tensor:
    """Return uint8 ``[R]`` for losses ``[R, m]``: 0, or ``floored`` if one is zero, or ``invalid`` if one is not
    finite."""
    R, m = losses.shape
    status = torch.empty(R, dtype=torch.uint8, device=losses.device)
    sizes = {"m": m, "MB": triton.next_power_of_2(m)}
    _status[(R,)](losses.contiguous(), status, **sizes, FLOORED=floored, INVALID=invalid)
    return status
