"""Inner products of long gradients in float64, added up in a fixed order, in two Triton launches."""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

BLOCK = 1024


@triton.jit
def _partial(rows, partial, R, n, blocks, m: tl.constexpr, MB: tl.constexpr, BLOCK: tl.constexpr):
    block, ray, i = tl.program_id(0), tl.program_id(1), tl.arange(0, MB)
    at = block * BLOCK + tl.arange(0, BLOCK)
    inside = (i < m)[:, None] & (at < n)[None, :]
    place = (i[:, None] * R + ray).to(tl.int64) * n + at[None, :]
    tile = tl.load(rows + place, inside, 0.0).to(tl.float64)
    for j in tl.static_range(m):
        other = tl.load(rows + (j * R + ray).to(tl.int64) * n + at, at < n, 0.0).to(tl.float64)
        product = tl.sum(tile * other[None, :], 1)
        tl.store(partial + ((ray * blocks + block) * m + j) * m + i, product, i < m)


@triton.jit
def _sum(partial, gram, blocks, MM: tl.constexpr, MMB: tl.constexpr, STEP: tl.constexpr):
    ray, at = tl.program_id(0), tl.arange(0, MMB)
    total = tl.zeros((STEP, MMB), tl.float64)
    for start in range(0, blocks, STEP):
        block = start + tl.arange(0, STEP)
        real = (block < blocks)[:, None] & (at < MM)[None, :]
        total += tl.load(partial + (ray * blocks + block)[:, None] * MM + at[None, :], real, 0.0)
    tl.store(gram + ray * MM + at, tl.sum(total, 0), at < MM)


def gram_on_gpu(rows: Tensor) -> Tensor:
    """Compute ``<g_i, g_j>`` as ``[R, m, m]`` in float64, from gradients ``[m, R, n]``."""
    rows, (m, R, n) = rows.contiguous(), rows.shape
    blocks = triton.cdiv(n, BLOCK)
    partial = torch.empty(R, blocks, m, m, dtype=torch.float64, device=rows.device)
    gram = torch.empty(R, m, m, dtype=torch.float64, device=rows.device)
    _partial[(blocks, R)](rows, partial, R, n, blocks, m=m, MB=triton.next_power_of_2(m), BLOCK=BLOCK)
    _sum[(R,)](partial, gram, blocks, MM=m * m, MMB=triton.next_power_of_2(m * m), STEP=32)
    return gram
