"""``relu(x W^T + b)`` in one Triton launch, and for few outputs all its gradients in another.

Shapes: ``x [Rx, M, K]`` with ``Rx`` 1 or ``R``, ``weight [R, N, K]``, ``bias [R, N]``, cotangents ``g [J, R, M, N]``.
"""

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from hyperfront.kernels.gpu.rays import merged


@triton.jit
def _forward(
    x, w, b, y, x_ray, M, N, K, RELU: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr,
    PRECISION: tl.constexpr,
):  # fmt: skip
    ray = tl.program_id(2)
    row, n = tl.program_id(0) * BM + tl.arange(0, BM), tl.program_id(1) * BN + tl.arange(0, BN)
    x += ray * x_ray
    w += ray * N * K
    z = tl.zeros((BM, BN), tl.float32)
    for start in range(0, K, BK):
        k = start + tl.arange(0, BK)
        a = tl.load(x + row[:, None] * K + k[None, :], (row < M)[:, None] & (k < K)[None, :], 0.0)
        c = tl.load(w + n[None, :] * K + k[:, None], (n < N)[None, :] & (k < K)[:, None], 0.0)
        z = tl.dot(a, c, z, input_precision=PRECISION)
    z += tl.load(b + ray * N + n, n < N, 0.0)[None, :]
    z = tl.where(z < 0, 0.0, z) if RELU else z
    tl.store(y + (ray * M + row)[:, None] * N + n[None, :], z, (row < M)[:, None] & (n < N)[None, :])


@triton.jit
def _backward(
    g, y, x, w, dx, dw, db, x_ray, rays, M, N, K, RELU: tl.constexpr, INPUTS: tl.constexpr,
    BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """The first ``INPUTS`` programs make tiles of ``dx``, the others tiles of ``dw`` (and ``db``)."""
    which, part = tl.program_id(1), tl.program_id(0)
    ray = which % rays
    g += which * M * N
    y += ray * M * N
    columns = tl.cdiv(K, BK)
    if part < INPUTS:
        row, k = part // columns * BM + tl.arange(0, BM), part % columns * BK + tl.arange(0, BK)
        z = tl.zeros((BM, BK), tl.float32)
        for start in range(0, N, BN):
            n = start + tl.arange(0, BN)
            real = (row < M)[:, None] & (n < N)[None, :]
            slope = tl.load(g + row[:, None] * N + n[None, :], real, 0.0)
            if RELU:
                slope = tl.where(tl.load(y + row[:, None] * N + n[None, :], real, 0.0) > 0, slope, 0.0)
            c = tl.load(w + ray * N * K + n[:, None] * K + k[None, :], (n < N)[:, None] & (k < K)[None, :], 0.0)
            z = tl.dot(slope, c, z, input_precision=PRECISION)
        to = (which * M + row)[:, None] * K + k[None, :]
        tl.store(dx + to, z, (row < M)[:, None] & (k < K)[None, :])
    else:
        rest = part - INPUTS
        n2, k2 = rest // columns * BN + tl.arange(0, BN), rest % columns * BK + tl.arange(0, BK)
        product = tl.zeros((BN, BK), tl.float32)
        total = tl.zeros((BN,), tl.float32)
        for start2 in range(0, M, BM):
            row2 = start2 + tl.arange(0, BM)
            real2 = (row2 < M)[None, :] & (n2 < N)[:, None]
            slope2 = tl.load(g + row2[None, :] * N + n2[:, None], real2, 0.0)
            if RELU:
                slope2 = tl.where(tl.load(y + row2[None, :] * N + n2[:, None], real2, 0.0) > 0, slope2, 0.0)
            a = tl.load(x + ray * x_ray + row2[:, None] * K + k2[None, :], (row2 < M)[:, None] & (k2 < K)[None, :], 0.0)
            product = tl.dot(slope2, a, product, input_precision=PRECISION)
            total += tl.sum(slope2, 1)
        tl.store(dw + which * N * K + n2[:, None] * K + k2[None, :], product, (n2 < N)[:, None] & (k2 < K)[None, :])
        tl.store(db + which * N + n2, total, (n2 < N) & (n2 < tl.where(rest % columns == 0, N, 0)))


def _precision() -> str:
    return "tf32" if torch.backends.cuda.matmul.allow_tf32 else "ieee"


class _Linear(torch.autograd.Function):
    @staticmethod
    def forward(x: Tensor, weight: Tensor, bias: Tensor, relu: bool) -> Tensor:
        x, weight, bias = x.contiguous(), weight.contiguous(), bias.contiguous()
        (Rx, M, K), (R, N, _) = x.shape, weight.shape
        y = x.new_empty(R, M, N)
        rows, wide = 16, 64 if N > 32 else 16 if N <= 16 else 32
        _forward[(triton.cdiv(M, rows), triton.cdiv(N, wide), R)](
            x, weight, bias, y, (Rx > 1) * M * K, M, N, K, RELU=relu, BM=rows, BN=wide, BK=64, PRECISION=_precision()
        )
        return y

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple, output: Tensor) -> None:
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(inputs[0], inputs[1], output)
        ctx.relu = inputs[3]

    @staticmethod
    def backward(ctx: Any, g: Tensor | None) -> tuple:
        if g is None:
            return None, None, None, None
        found = _Gradient.apply(g[None], *ctx.saved_tensors, ctx.relu, ctx.needs_input_grad[0])
        return *(None if part is None else part.squeeze(0) for part in found), None

    @staticmethod
    def vmap(info: Any, dims: tuple, x: Tensor, weight: Tensor, bias: Tensor, relu: bool) -> tuple:
        count = info.batch_size
        weight, bias = merged(weight, dims[1], count), merged(bias, dims[2], count)
        x = merged(x, dims[0], count) if dims[0] is not None or len(x) > 1 else x
        return _Linear.apply(x, weight, bias, relu).unflatten(0, (count, -1)), 0


class _Gradient(torch.autograd.Function):
    """``dx`` (if wanted), ``dw``, ``db`` of cotangents ``g [J, R, M, N]``."""

    @staticmethod
    def forward(g: Tensor, x: Tensor, weight: Tensor, y: Tensor, relu: bool, wants_x: bool) -> tuple:
        g, x, weight, y = g.contiguous(), x.contiguous(), weight.contiguous(), y.contiguous()
        (J, R, M, N), K = g.shape, x.shape[-1]
        if N > 16:  # large enough for the library's matrix products
            g = torch.where(y > 0, g, 0.0) if relu else g
            dx = (g @ weight if len(x) == R else (g @ weight).sum(1, keepdim=True)) if wants_x else None
            return dx, g.mT @ x, g.sum(2)
        dx = g.new_empty(J, R, M, K) if wants_x else g
        dw, db = g.new_empty(J, R, N, K), g.new_empty(J, R, N)
        rows, wide, deep = 32, 64 if N > 32 else 16 if N <= 16 else 32, 64
        inputs = triton.cdiv(M, rows) * triton.cdiv(K, deep) * wants_x
        weights = triton.cdiv(N, wide) * triton.cdiv(K, deep)
        _backward[(inputs + weights, J * R)](
            g, y, x, weight, dx, dw, db, (len(x) > 1) * M * K, R, M, N, K, RELU=relu, INPUTS=inputs,
            BM=rows, BN=wide, BK=deep, PRECISION=_precision(),
        )  # fmt: skip
        if wants_x and len(x) != R:
            dx = dx.sum(1, keepdim=True)
        return (dx if wants_x else None), dw, db

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple, output: tuple) -> None:
        pass

    @staticmethod
    def backward(ctx: Any, *_: Any) -> Any:
        raise NotImplementedError("the fused linear layer has no second derivative")

    @staticmethod
    def vmap(info: Any, dims: tuple, g: Tensor, x: Tensor, weight: Tensor, y: Tensor, *options: Any) -> tuple:
        count, out = info.batch_size, ((0 if options[1] else None), 0, 0)
        if dims[1:4] == (None, None, None):  # several cotangents of the same networks
            found = _Gradient.apply(g.movedim(dims[0], 0).flatten(0, 1), x, weight, y, *options)
            return tuple(None if part is None else part.unflatten(0, (count, -1)) for part in found), out
        given = list(zip((g, x, weight, y), dims))
        each = [[part if dim is None else part.select(dim, r) for part, dim in given] for r in range(count)]
        found = zip(*(_Gradient.apply(*parts, *options) for parts in each))
        return tuple(None if parts[0] is None else torch.stack(parts) for parts in found), out


def linear_on_gpu(x: Tensor, weight: Tensor, bias: Tensor, relu: bool) -> Tensor:
    """``F.linear(x, weight, bias)`` of ``x [M, K]``, with a ReLU behind it if asked for."""
    return _Linear.apply(x[None], weight[None], bias[None], relu).squeeze(0)
