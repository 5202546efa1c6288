"""BatchNorm with the batch's statistics, dropout of channels, a shortcut and a PReLU, as one operation in Triton:

    z = keep (weight (x - mean) / sqrt(variance + eps) + bias) + shortcut,        y = z if z > 0 else slope z

``x [N, C, H, W]`` lies in memory as a table of pixels by channels. Only ``x`` and ``shortcut`` are kept for the
gradients, which compute ``z`` again. This takes two passes over the table forward and two backward, while separate
operations take five to ten each way. Sums over pixels are taken in a fixed order.
"""

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

TILE = 4096
"""The count of numbers in a program's tile."""
BLOCKS = 264
"""The number of programs that share the sums over pixels."""


@triton.jit
def _tile(x, row, c, real, C: tl.constexpr):
    return tl.load(x + row[:, None].to(tl.int64) * C + c[None, :], real[:, None] & (c < C)[None, :], 0.0)


@triton.jit
def _store(y, row, c, P, C: tl.constexpr, value):
    tl.store(y + row[:, None].to(tl.int64) * C + c[None, :], value, (row < P)[:, None] & (c < C)[None, :])


@triton.jit
def _channel(values, c, C: tl.constexpr):
    return tl.load(values + c, c < C, 0.0)[None, :]


@triton.jit
def _spread(x, partial, P, C: tl.constexpr, CB: tl.constexpr, BM: tl.constexpr):
    """Add up ``x`` and its squares, ``[blocks, 2, C]``, relative to the first pixel, which loses fewer digits."""
    block, blocks, c = tl.program_id(0), tl.num_programs(0), tl.arange(0, CB)
    origin = _channel(x, c, C)
    total, square = tl.zeros((CB,), tl.float32), tl.zeros((CB,), tl.float32)
    for start in range(block * BM, P, blocks * BM):
        row = start + tl.arange(0, BM)
        apart = tl.where((row < P)[:, None], _tile(x, row, c, row < P, C) - origin, 0.0)
        total += tl.sum(apart, 0)
        square += tl.sum(apart * apart, 0)
    tl.store(partial + block * 2 * C + c, total, c < C)
    tl.store(partial + (block * 2 + 1) * C + c, square, c < C)


@triton.jit
def _moments(x, partial, moments, blocks, P, eps, C: tl.constexpr, CB: tl.constexpr, BB: tl.constexpr):
    """Compute ``mean`` and ``1 / sqrt(variance + eps)``, ``[2, C]``."""
    c = tl.program_id(0) * CB + tl.arange(0, CB)
    total, square = tl.zeros((CB,), tl.float32), tl.zeros((CB,), tl.float32)
    for start in range(0, blocks, BB):
        block = start + tl.arange(0, BB)
        at = block[:, None] * 2 * C + c[None, :]
        real = (block < blocks)[:, None] & (c < C)[None, :]
        total += tl.sum(tl.load(partial + at, real, 0.0), 0)
        square += tl.sum(tl.load(partial + at + C, real, 0.0), 0)
    shift = total / P
    variance = tl.maximum(square / P - shift * shift, 0.0)
    tl.store(moments + c, shift + tl.load(x + c, c < C, 0.0), c < C)
    tl.store(moments + C + c, 1.0 / tl.sqrt(variance + eps), c < C)


@triton.jit
def _z(
    x, shortcut, keep, weight, bias, moments, row, c, P, pixels, C: tl.constexpr, ADD: tl.constexpr, DROP: tl.constexpr
):
    """Compute ``z``, the normalized ``x``, and the factors of its image."""
    normal = (_tile(x, row, c, row < P, C) - _channel(moments, c, C)) * _channel(moments + C, c, C)
    z = normal * _channel(weight, c, C) + _channel(bias, c, C)
    factor = tl.full(z.shape, 1.0, tl.float32)
    if DROP:
        factor = _tile(keep, row // pixels, c, row < P, C)
        z *= factor
    if ADD:
        z += _tile(shortcut, row, c, row < P, C)
    return z, normal, factor


@triton.jit
def _forward(
    x, shortcut, keep, weight, bias, slope, moments, y, P, pixels,
    C: tl.constexpr, ADD: tl.constexpr, DROP: tl.constexpr, CB: tl.constexpr, BM: tl.constexpr,
):  # fmt: skip
    row, c = tl.program_id(0) * BM + tl.arange(0, BM), tl.arange(0, CB)
    z, _, _ = _z(x, shortcut, keep, weight, bias, moments, row, c, P, pixels, C, ADD, DROP)
    _store(y, row, c, P, C, tl.where(z > 0, z, z * _channel(slope, c, C)))


@triton.jit
def _sums(
    x, shortcut, keep, weight, bias, slope, moments, g, partial, P, pixels,
    C: tl.constexpr, ADD: tl.constexpr, DROP: tl.constexpr, CB: tl.constexpr, BM: tl.constexpr,
):  # fmt: skip
    """Add up the gradients of weight, bias and slope, ``[blocks, 3, C]``."""
    block, blocks, c = tl.program_id(0), tl.num_programs(0), tl.arange(0, CB)
    dw, db, ds = tl.zeros((CB,), tl.float32), tl.zeros((CB,), tl.float32), tl.zeros((CB,), tl.float32)
    for start in range(block * BM, P, blocks * BM):
        row = start + tl.arange(0, BM)
        z, normal, factor = _z(x, shortcut, keep, weight, bias, moments, row, c, P, pixels, C, ADD, DROP)
        cotangent = _tile(g, row, c, row < P, C)
        inner = tl.where(z > 0, cotangent, cotangent * _channel(slope, c, C)) * factor
        dw += tl.sum(inner * normal, 0)
        db += tl.sum(inner, 0)
        ds += tl.sum(cotangent * tl.minimum(z, 0.0), 0)
    tl.store(partial + block * 3 * C + c, dw, c < C)
    tl.store(partial + (block * 3 + 1) * C + c, db, c < C)
    tl.store(partial + (block * 3 + 2) * C + c, ds, c < C)


@triton.jit
def _backward(
    x, shortcut, keep, weight, bias, slope, moments, g, sums, dx, dshortcut, P, pixels,
    C: tl.constexpr, ADD: tl.constexpr, DROP: tl.constexpr, CB: tl.constexpr, BM: tl.constexpr,
):  # fmt: skip
    row, c = tl.program_id(0) * BM + tl.arange(0, BM), tl.arange(0, CB)
    z, normal, factor = _z(x, shortcut, keep, weight, bias, moments, row, c, P, pixels, C, ADD, DROP)
    cotangent = _tile(g, row, c, row < P, C)
    outer = tl.where(z > 0, cotangent, cotangent * _channel(slope, c, C))
    if ADD:
        _store(dshortcut, row, c, P, C, outer)
    inner = outer * factor - (_channel(sums + C, c, C) + normal * _channel(sums, c, C)) / P
    _store(dx, row, c, P, C, inner * _channel(weight, c, C) * _channel(moments + C, c, C))


def _sizes(x: Tensor) -> tuple[int, int, int, int]:
    """Return the number of all pixels and of an image's pixels, and the sides of a tile."""
    images, channels, height, width = x.shape
    across = triton.next_power_of_2(channels)
    return images * height * width, height * width, max(1, TILE // across), across


def _options(shortcut: Tensor | None, keep: Tensor | None) -> dict[str, bool]:
    return {"ADD": shortcut is not None, "DROP": keep is not None}


class _Normalized(torch.autograd.Function):
    @staticmethod
    def forward(*args: Any) -> tuple[Tensor, Tensor]:
        x, weight, bias, slope, shortcut, keep, eps = _laid_out(*args)
        (pixels, each, tall, wide), channels = _sizes(x), x.shape[1]
        tiles = triton.cdiv(pixels, tall)
        blocks = min(BLOCKS, tiles)
        partial, moments, y = x.new_empty(blocks, 2, channels), x.new_empty(2, channels), torch.empty_like(x)
        _spread[(blocks,)](x, partial, pixels, C=channels, CB=wide, BM=tall)
        few = min(16, wide)
        _moments[(triton.cdiv(channels, few),)](
            x, partial, moments, blocks, pixels, eps, C=channels, CB=few, BB=triton.next_power_of_2(blocks), num_warps=8
        )
        _forward[(tiles,)](
            x, shortcut, keep, weight, bias, slope, moments, y, pixels, each,
            C=channels, CB=wide, BM=tall, **_options(shortcut, keep),
        )  # fmt: skip
        return y, moments

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple, output: tuple) -> None:
        ctx.set_materialize_grads(False)
        ctx.mark_non_differentiable(output[1])
        ctx.save_for_backward(*inputs[:-1], output[1])

    @staticmethod
    def backward(ctx: Any, g: Tensor | None, _: Any) -> tuple[Tensor | None, ...]:
        if g is None:
            return (None,) * 7
        *inputs, moments = ctx.saved_tensors
        x, weight, bias, slope, shortcut, keep, _ = _laid_out(*inputs, 0.0)
        (pixels, each, tall, wide), channels = _sizes(x), x.shape[1]
        g = g.contiguous(memory_format=torch.channels_last)
        tiles = triton.cdiv(pixels, tall)
        partial = x.new_empty(min(BLOCKS, tiles), 3, channels)
        dx, dshortcut = torch.empty_like(x), None if shortcut is None else torch.empty_like(x)
        given = (x, shortcut, keep, weight, bias, slope, moments, g)
        sizes = {"C": channels, "CB": wide, "BM": tall, **_options(shortcut, keep)}
        _sums[(len(partial),)](*given, partial, pixels, each, **sizes)
        sums = partial.sum(0)
        _backward[(tiles,)](*given, sums, dx, dshortcut, pixels, each, **sizes)
        return dx, *sums, dshortcut, None, None

    @staticmethod
    def vmap(info: Any, dims: tuple, *args: Any) -> tuple:
        """Run one network after the other: a network that is large enough for this operation fills a GPU."""
        each = [[a if dim is None else a.select(dim, i) for a, dim in zip(args, dims)] for i in range(info.batch_size)]
        y, moments = zip(*(_Normalized.apply(*parts) for parts in each))
        return (torch.stack(y), torch.stack(moments)), (0, 0)


def _laid_out(x: Tensor, weight: Tensor, bias: Tensor, slope: Tensor, shortcut: Any, keep: Any, eps: float) -> tuple:
    """Lay all tensors out as the programs read them."""
    last = torch.channels_last
    shortcut = None if shortcut is None else shortcut.contiguous(memory_format=last)
    rows = (row.contiguous() for row in (weight, bias, slope))
    return x.contiguous(memory_format=last), *rows, shortcut, None if keep is None else keep.contiguous(), eps


def normalized_on_gpu(
    x: Tensor, weight: Tensor, bias: Tensor, slope: Tensor, shortcut: Tensor | None, keep: Tensor | None, eps: float
) -> Tensor:
    """Compute ``y [N, C, H, W]``; ``keep [N, C]`` holds the factors of a dropout."""
    return _Normalized.apply(x, weight, bias, slope, shortcut, keep, eps)[0]
