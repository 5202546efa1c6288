"""Inner products of long gradients, in float64 without a float64 copy of them."""

from __future__ import annotations

import functools
from collections.abc import Sequence

import torch
from torch import Tensor

from hyperfront.kernels import on_gpu

BLOCK = 2**20


def inner_products(rows: Sequence[Tensor] | Tensor) -> Tensor:
    """Compute ``<g_i, g_j>`` as ``[R, m, m]`` in float64, from ``m`` gradients ``g_j [R, n]``.

    Tiny differences between these products decide between the vertices of a linear program, so float32 sums and TF32
    are too inaccurate; products of float32 numbers are exact in float64. Only ``BLOCK`` columns are converted at a
    time.

    >>> inner_products([torch.tensor([[1.0, 2.0]]), torch.tensor([[3.0, -1.0]])])
    tensor([[[ 5.,  1.],
             [ 1., 10.]]], dtype=torch.float64)
    """
    product, block = _wide, BLOCK
    if on_gpu(rows[0]):
        from hyperfront.kernels.gpu.gram import gram_on_gpu  # needs Triton

        if isinstance(rows, Tensor):
            return gram_on_gpu(rows)
        product, block = gram_on_gpu, 4 * BLOCK  # it copies the blocks, but does not convert them
    parts = zip(*(row.split(max(1, block // len(row)), dim=1) for row in rows))
    return functools.reduce(torch.add, (product(torch.stack(part)) for part in parts))


def _wide(rows: Tensor) -> Tensor:
    """Compute the products of ``rows [m, R, columns]``."""
    wide = rows.movedim(0, 1).double()
    return wide @ wide.mT
