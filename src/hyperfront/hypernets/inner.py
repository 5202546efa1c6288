"""Inner products of long gradients, in float64 without a float64 copy of them."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from hyperfront.kernels import on_gpu

BLOCK = 2**20


def inner_products(rows: Sequence[Tensor] | Tensor) -> Tensor:
    """``<g_i, g_j>`` as ``[R, m, m]`` in float64, of ``m`` gradients ``g_j [R, n]``.

    Products of float32 numbers are exact in float64, and tiny differences between them decide between the vertices of
    a linear program, so neither float32 sums nor TF32 will do. Only ``BLOCK`` columns are widened at a time.

    >>> inner_products([torch.tensor([[1.0, 2.0]]), torch.tensor([[3.0, -1.0]])])
    tensor([[[ 5.,  1.],
             [ 1., 10.]]], dtype=torch.float64)
    """
    count = len(rows[0])
    if on_gpu(rows[0]) and len(rows) * rows[0].numel() <= 8 * BLOCK:
        from hyperfront.kernels.gpu.gram import gram_on_gpu  # needs Triton

        return gram_on_gpu(rows if isinstance(rows, Tensor) else torch.stack(list(rows)))
    gram = torch.zeros(count, len(rows), len(rows), dtype=torch.float64, device=rows[0].device)
    step = max(1, BLOCK // count)
    for columns in zip(*(row.split(step, dim=1) for row in rows)):
        wide = torch.stack(columns, dim=1).double()
        gram.baddbmm_(wide, wide.mT)
    return gram
