"""The trunk of the MLP hypernetwork, ``z = W3 relu(W2 relu(W1 e + b1) + b2) + b3``, forth and back in one launch each.

Its matrices are at most 128 wide: a program holds one of them whole and takes the rays one by one.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor


@triton.jit
def _layer(x, w, b, n: tl.constexpr, d: tl.constexpr, NB: tl.constexpr, DB: tl.constexpr):
    """``W x + b`` of a vector ``x [DB]`` that is laid out along the columns, as one along the rows."""
    i, j = tl.arange(0, NB), tl.arange(0, DB)
    matrix = tl.load(w + i[:, None] * d + j[None, :], (i < n)[:, None] & (j < d)[None, :], 0.0)
    return tl.sum(matrix * x[None, :], 1) + tl.load(b + i, i < n, 0.0)


@triton.jit
def _forward(
    e, w1, b1, w2, b2, w3, b3, h1, h2, z, d: tl.constexpr, n: tl.constexpr, DB: tl.constexpr, NB: tl.constexpr
):
    ray, i, j = tl.program_id(0), tl.arange(0, NB), tl.arange(0, DB)
    x = _layer(tl.load(e + ray * d + j, j < d, 0.0), w1, b1, n, d, NB, DB)
    tl.store(h1 + ray * n + i, tl.where(x < 0, 0.0, x), i < n)
    tl.debug_barrier()  # what was written along the rows is read along the columns
    x = _layer(tl.load(h1 + ray * n + i, i < n, 0.0), w2, b2, n, n, NB, NB)
    tl.store(h2 + ray * n + i, tl.where(x < 0, 0.0, x), i < n)
    tl.debug_barrier()
    x = _layer(tl.load(h2 + ray * n + i, i < n, 0.0), w3, b3, n, n, NB, NB)
    tl.store(z + ray * n + i, x, i < n)


@triton.jit
def _slopes(g, e, h1, h2, w2, w3, g1, g2, n: tl.constexpr, NB: tl.constexpr):
    """The gradients with respect to the inputs of both ReLUs, for one ray."""
    ray, i, k = tl.program_id(0), tl.arange(0, NB), tl.arange(0, NB)
    square = (i < n)[:, None] & (k < n)[None, :]
    slope = tl.load(g + ray * n + i, i < n, 0.0)
    below = tl.load(h2 + ray * n + k, k < n, 0.0)
    slope = tl.sum(tl.load(w3 + i[:, None] * n + k[None, :], square, 0.0) * slope[:, None], 0)
    tl.store(g2 + ray * n + k, tl.where(below > 0, slope, 0.0), k < n)
    tl.debug_barrier()
    slope = tl.load(g2 + ray * n + i, i < n, 0.0)
    below = tl.load(h1 + ray * n + k, k < n, 0.0)
    slope = tl.sum(tl.load(w2 + i[:, None] * n + k[None, :], square, 0.0) * slope[:, None], 0)
    tl.store(g1 + ray * n + k, tl.where(below > 0, slope, 0.0), k < n)


@triton.jit
def _outer(g, x, dw, db, R, row, n: tl.constexpr, d: tl.constexpr, ROWS: tl.constexpr, DB: tl.constexpr):
    """Some rows of ``dW = sum_r g_r x_r^T`` and ``db = sum_r g_r``."""
    i, j = row + tl.arange(0, ROWS), tl.arange(0, DB)
    total = tl.zeros((ROWS, DB), tl.float32)
    bias = tl.zeros((ROWS,), tl.float32)
    for r in range(R):
        slope = tl.load(g + r * n + i, i < n, 0.0)
        total += slope[:, None] * tl.load(x + r * d + j, j < d, 0.0)[None, :]
        bias += slope
    tl.store(dw + i[:, None] * d + j[None, :], total, (i < n)[:, None] & (j < d)[None, :])
    tl.store(db + i, bias, i < n)


@triton.jit
def _weights(
    g, g2, g1, e, h1, h2, dw1, db1, dw2, db2, dw3, db3, R, d: tl.constexpr, n: tl.constexpr, DB: tl.constexpr,
    NB: tl.constexpr, ROWS: tl.constexpr,
):  # fmt: skip
    row = tl.program_id(0) * ROWS
    if tl.program_id(1) == 0:
        _outer(g, h2, dw3, db3, R, row, n, n, ROWS, NB)
    elif tl.program_id(1) == 1:
        _outer(g2, h1, dw2, db2, R, row, n, n, ROWS, NB)
    else:
        _outer(g1, e, dw1, db1, R, row, n, d, ROWS, DB)


class _Trunk(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, e: Tensor, *layers: Tensor) -> Tensor:
        e, (R, d), n = e.contiguous(), e.shape, len(layers[1])
        h1, h2, z = (e.new_empty(R, n) for _ in range(3))
        sizes = {"d": d, "n": n, "DB": max(2, triton.next_power_of_2(d)), "NB": triton.next_power_of_2(n)}
        _forward[(R,)](e, *layers, h1, h2, z, **sizes, num_warps=8)
        ctx.save_for_backward(e, h1, h2, *layers)
        ctx.sizes = sizes
        return z

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> tuple:
        e, h1, h2, *layers = ctx.saved_tensors
        g, n, wide = g.contiguous(), ctx.sizes["n"], ctx.sizes["NB"]
        g1, g2, grads = torch.empty_like(h1), torch.empty_like(h2), [torch.empty_like(layer) for layer in layers]
        _slopes[(len(e),)](g, e, h1, h2, layers[2], layers[4], g1, g2, n=n, NB=wide, num_warps=8)
        _weights[(triton.cdiv(n, 16), 3)](g, g2, g1, e, h1, h2, *grads, len(e), **ctx.sizes, ROWS=16)
        return None, *grads


def trunk_on_gpu(e: Tensor, *layers: Tensor) -> Tensor:
    """``e [R, d]`` and ``W1, b1, W2, b2, W3, b3`` to ``z [R, n]``; rays have no gradient."""
    return _Trunk.apply(e, *layers)


def fits(e: Tensor, layers: Sequence[Tensor]) -> bool:
    return not e.requires_grad and e.shape[-1] <= 64 and len(layers[1]) <= 128 and e.dtype == torch.float32
