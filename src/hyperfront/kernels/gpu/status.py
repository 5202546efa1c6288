"""Which rays have losses that are not finite, in one Triton launch."""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor


@triton.jit
def _invalid(losses, status, m: tl.constexpr, MB: tl.constexpr, INVALID: tl.constexpr):
    j = tl.arange(0, MB)
    found = tl.load(losses + tl.program_id(0) * m + j, j < m, 0.0)
    bad = tl.max((found * 0 != 0).to(tl.int32), 0)  # of what is not finite that is NaN
    tl.store(status + tl.program_id(0), (bad * INVALID).to(tl.uint8))


def invalid_on_gpu(losses: Tensor, invalid: int) -> Tensor:
    """uint8 ``[R]`` of losses ``[R, m]``: 0, or ``invalid``."""
    R, m = losses.shape
    status = torch.empty(R, dtype=torch.uint8, device=losses.device)
    _invalid[(R,)](losses.contiguous(), status, m=m, MB=triton.next_power_of_2(m), INVALID=invalid)
    return status
