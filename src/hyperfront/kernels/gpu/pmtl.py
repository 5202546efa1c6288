"""PMTL's weights for two objectives on a GPU: ``pmtl.cu``, one launch instead of a hundred."""

from __future__ import annotations

import torch
from torch import Tensor

from hyperfront.kernels.gpu.cuda_source import available, launch, up

THREADS = 32
MANY = 32  # unit vectors; a thread tries all triangles of the vectors that take part


def pays(others: Tensor) -> bool:
    """Whether the kernel can be used, and is faster than a thread for each triangle."""
    return len(others) <= MANY and available(others.device)


def pmtl_on_gpu(
    losses: Tensor,
    rays: Tensor,
    gram: Tensor,
    others: Tensor,
    *,
    tolerance: float,
    same: float,
    floored: int,
    invalid: int,
) -> tuple[Tensor, Tensor]:
    """Compute weights ``[R, 2]`` like the losses and status ``[R]``, from the unit vectors ``others [K, 2]``."""
    given = [tensor.to(torch.float64).contiguous() for tensor in (losses, rays, gram, others)]
    weights, status = torch.empty_like(given[0]), torch.empty(len(rays), dtype=torch.uint8, device=losses.device)
    grid = up(len(rays), THREADS), 1
    numbers = tolerance, same, len(rays), floored, invalid
    launch("pmtl.cu", "pmtl", grid, THREADS, *given, weights, status, *numbers, K=len(others))
    return weights.to(losses.dtype), status
