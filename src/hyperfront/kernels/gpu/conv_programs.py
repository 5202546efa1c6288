"""``max_pool2d(relu(conv2d(x, weight, bias)), 2)`` and its gradients as Triton programs, one set of weights per ray.

A pooled pixel needs ``K + 1`` rows and columns of the input: its four convolutions ("phases" ``(dy, dx)`` of the
2 x 2 window) read the same taps, each with the weights moved by ``(dy, dx)``. So the taps are loaded once, and each
phase is a matrix product of them with moved weights:

    z_p[pixel, n] = sum over taps (c, i, j) of  x[c, 2 py + i, 2 px + j]  w[n, c, i - dy_p, j - dx_p]            (1)
    y = relu(max_p z_p + b)

What is kept for the gradients is one byte per pooled pixel: the phase that won, or 4 where the ReLU is closed. With
``g_p = g [phase = p]``:

    dw[n, c, i, j] = sum_p  t_p[c, i + dy_p, j + dx_p, n],    t_p = sum over pixels of taps^T g_p                (2)
    dx[c, 2 u + a, 2 v + b] = sum over p, n, s, t of  g_p[n, u - s, v - t]  w[n, c, 2 s + a - dy_p, 2 t + b - dx_p]  (3)

Shapes: ``x [Rx, B, C, H, W]`` with ``Rx`` 1 or ``R``, ``weight [R, N, C, K, K]``, ``bias [R, N]``, and
``y [R, B, N, P, Q]``; for the gradients several cotangents ``g [J, R, B, N, P, Q]`` at once. Sums over pixels are taken
in a fixed order.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
import triton
import triton.language as tl
from torch import Tensor


@triton.jit
def _forward(
    x, w, b, y, phase, x_ray, pixels, H, W, P, Q,
    C: tl.constexpr, K: tl.constexpr, N: tl.constexpr, NB: tl.constexpr,
    BM: tl.constexpr, BK: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    ray, n = tl.program_id(1), tl.arange(0, NB)
    pixel = tl.program_id(0) * BM + tl.arange(0, BM)
    inside = pixel < pixels
    image, place = pixel // (P * Q), pixel % (P * Q)
    corner = image * (C * H * W) + (place // Q) * (2 * W) + (place % Q) * 2
    x += ray * x_ray
    w += ray * (N * C * K * K)
    side: tl.constexpr = K + 1
    z0 = tl.zeros((BM, NB), tl.float32)
    z1 = tl.zeros((BM, NB), tl.float32)
    z2 = tl.zeros((BM, NB), tl.float32)
    z3 = tl.zeros((BM, NB), tl.float32)
    for start in range(0, C * side * side, BK):
        tap = start + tl.arange(0, BK)
        c, i, j = tap // (side * side), tap % (side * side) // side, tap % side
        there = tap < C * side * side
        a = tl.load(x + corner[:, None] + (c * H * W + i * W + j)[None, :], inside[:, None] & there[None, :], 0.0)
        at = n[None, :] * (C * K * K) + (c * K * K + i * K + j)[:, None]
        real = there[:, None] & (n < N)[None, :]
        up, left = (i > 0)[:, None], (j > 0)[:, None]
        down, right = (i < K)[:, None], (j < K)[:, None]
        z0 = tl.dot(a, tl.load(w + at, real & down & right, 0.0), z0, input_precision=PRECISION)
        z1 = tl.dot(a, tl.load(w + at - 1, real & down & left, 0.0), z1, input_precision=PRECISION)
        z2 = tl.dot(a, tl.load(w + at - K, real & up & right, 0.0), z2, input_precision=PRECISION)
        z3 = tl.dot(a, tl.load(w + at - K - 1, real & up & left, 0.0), z3, input_precision=PRECISION)
    won = tl.where(z1 > z0, 1, 0)
    best = tl.where(z1 > z0, z1, z0)
    won = tl.where(z2 > best, 2, won)
    best = tl.where(z2 > best, z2, best)
    won = tl.where(z3 > best, 3, won)
    best = tl.where(z3 > best, z3, best)
    best += tl.load(b + ray * N + n, n < N, 0.0)[None, :]
    won = tl.where(best > 0, won, 4)
    best = tl.where(best < 0, 0.0, best)  # not maximum, which would hide a NaN
    to = ((ray * (pixels // (P * Q)) + image) * (N * P * Q) + place)[:, None] + n[None, :] * (P * Q)
    kept = inside[:, None] & (n < N)[None, :]
    tl.store(y + to, best, kept)
    tl.store(phase + to, won.to(tl.uint8), kept)


@triton.jit
def _weight_partial(
    x, g, phase, partial, bias_partial, x_ray, rays, pixels, TAPS: tl.constexpr,
    H: tl.constexpr, W: tl.constexpr, P: tl.constexpr, Q: tl.constexpr,
    C: tl.constexpr, K: tl.constexpr, N: tl.constexpr, NB: tl.constexpr, TILES: tl.constexpr, CHUNKS: tl.constexpr,
    BM: tl.constexpr, BK: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """The sums ``t_p`` of (2) over one chunk of pixels, for one tile of taps; tile 0 adds up the bias as well."""
    chunk, tile = tl.program_id(0) // TILES, tl.program_id(0) % TILES
    which = tl.program_id(1)  # cotangent and ray
    ray, column = which % rays, tl.arange(0, 4 * NB)
    n = column % NB
    side: tl.constexpr = K + 1
    tap = tile * BK + tl.arange(0, BK)
    offset = tap // (side * side) * H * W + tap % (side * side) // side * W + tap % side
    there = tap < C * side * side
    x += ray * x_ray
    g += which * (pixels * N)
    phase += ray * (pixels * N)
    t = tl.zeros((BK, 4 * NB), tl.float32)
    total = tl.zeros((4 * NB,), tl.float32)
    for start in range(chunk * BM, pixels, CHUNKS * BM):
        pixel = start + tl.arange(0, BM)
        inside = pixel < pixels
        image, place = pixel // (P * Q), pixel % (P * Q)
        corner = image * (C * H * W) + (place // Q) * (2 * W) + (place % Q) * 2
        a = tl.load(x + corner[None, :] + offset[:, None], inside[None, :] & there[:, None], 0.0)
        at = (image * (N * P * Q) + place)[:, None] + n[None, :] * (P * Q)
        real = inside[:, None] & (n < N)[None, :]
        won = tl.load(phase + at, real, 4)
        slope = tl.where(won == (column // NB)[None, :], tl.load(g + at, real, 0.0), 0.0)
        t = tl.dot(a, slope, t, input_precision=PRECISION)
        total += tl.sum(slope, 0)
    part = which * CHUNKS + chunk
    tl.store(partial + part * (TAPS * 4 * NB) + column[None, :] * TAPS + tap[:, None], t)
    tl.store(bias_partial + part * (4 * NB) + column, total, column < tl.where(tile == 0, 4 * NB, 0))


@triton.jit
def _weight_sum(
    partial, bias_partial, dw, db, TAPS: tl.constexpr,
    C: tl.constexpr, K: tl.constexpr, N: tl.constexpr, NB: tl.constexpr, CHUNKS: tl.constexpr,
    BLOCK: tl.constexpr, STEP: tl.constexpr,
):  # fmt: skip
    """(2): chunks and phases added up; behind the weights come the biases, which are the same at every tap."""
    which, size = tl.program_id(1), N * C * K * K
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    weight, bias = at < size, (at >= size) & (at < size + N)
    rest = at % (C * K * K)
    c, i, j = rest // (K * K), rest % (K * K) // K, rest % K
    place = at // (C * K * K) * TAPS + (c * (K + 1) + i) * (K + 1) + j
    partial += which * CHUNKS * TAPS * (4 * NB)
    bias_partial += which * CHUNKS * (4 * NB)
    total = tl.zeros((STEP, BLOCK), tl.float32)
    for start in range(0, CHUNKS, STEP):
        chunk = start + tl.arange(0, STEP)
        row = (chunk * TAPS)[:, None] * (4 * NB) + place[None, :]
        known = (chunk < CHUNKS)[:, None] & weight[None, :]
        other = (chunk * (4 * NB))[:, None] + (at - size)[None, :]
        wanted = (chunk < CHUNKS)[:, None] & bias[None, :]
        for p in tl.static_range(4):
            moved = p * NB * TAPS + p // 2 * (K + 1) + p % 2
            total += tl.load(partial + row + moved, known, 0.0)
            total += tl.load(bias_partial + other + p * NB, wanted, 0.0)
    found = tl.sum(total, 0)
    tl.store(dw + which * size + at, found, weight)
    tl.store(db + which * N + at - size, found, bias)


@triton.jit
def _expand(
    w, table, BACK: tl.constexpr, C: tl.constexpr, K: tl.constexpr, N: tl.constexpr, CB: tl.constexpr,
    BLOCK: tl.constexpr,
):  # fmt: skip
    """The weights as (3) needs them: ``[phase, (n, s, t), (a, b, c)]``."""
    ray, at = tl.program_id(1), tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    reach: tl.constexpr = K // 2 + 1
    phase, rest = at // (BACK * 4 * CB), at % (BACK * 4 * CB)
    k, column = rest // (4 * CB), rest % (4 * CB)
    n, s, t = k // (reach * reach), k % (reach * reach) // reach, k % reach
    c, parity = column % CB, column // CB
    i, j = 2 * s + parity // 2 - phase // 2, 2 * t + parity % 2 - phase % 2
    real = (c < C) & (n < N) & (i >= 0) & (i < K) & (j >= 0) & (j < K)
    value = tl.load(w + ray * (N * C * K * K) + (n * C + c) * (K * K) + i * K + j, real, 0.0)
    tl.store(table + ray * (4 * BACK * 4 * CB) + at, value, at < 4 * BACK * 4 * CB)


@triton.jit
def _input_gradient(
    g, phase, table, dx, rays, pixels, BACK: tl.constexpr,
    H: tl.constexpr, W: tl.constexpr, P: tl.constexpr, Q: tl.constexpr,
    C: tl.constexpr, K: tl.constexpr, N: tl.constexpr, CB: tl.constexpr,
    BM: tl.constexpr, BK: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """(3) for the four pixels ``(2 u, 2 v) ... (2 u + 1, 2 v + 1)`` of each place ``(u, v)``."""
    which = tl.program_id(1)
    ray, column = which % rays, tl.arange(0, 4 * CB)
    U: tl.constexpr = (H + 1) // 2
    V: tl.constexpr = (W + 1) // 2
    spot = tl.program_id(0) * BM + tl.arange(0, BM)
    images = pixels // (P * Q)
    inside = spot < images * U * V
    image, u, v = spot // (U * V), spot % (U * V) // V, spot % V
    g += which * (pixels * N)
    phase += ray * (pixels * N)
    table += ray * BACK * (16 * CB)
    reach: tl.constexpr = K // 2 + 1
    d = tl.zeros((BM, 4 * CB), tl.float32)
    for start in range(0, N * reach * reach, BK):
        k = start + tl.arange(0, BK)
        n, s, t = k // (reach * reach), k % (reach * reach) // reach, k % reach
        py, px = u[:, None] - s[None, :], v[:, None] - t[None, :]
        at = (image * N * P * Q)[:, None] + (n * P * Q)[None, :] + py * Q + px
        real = inside[:, None] & (n < N)[None, :] & (py >= 0) & (py < P) & (px >= 0) & (px < Q)
        won = tl.load(phase + at, real, 4)
        slope = tl.load(g + at, real, 0.0)
        here = table + k[:, None] * (4 * CB) + column[None, :]
        for p in tl.static_range(4):
            moved = tl.load(here + p * BACK * (4 * CB))
            d = tl.dot(tl.where(won == p, slope, 0.0), moved, d, input_precision=PRECISION)
    c, down, right = column % CB, column // CB // 2, column // CB % 2
    to = ((which * images + image) * (C * H * W) + 2 * u * W + 2 * v)[:, None]
    to += (c * (H * W) + down * W + right)[None, :]
    ok = inside[:, None] & (c < C)[None, :]
    ok = ok & (2 * u[:, None] + down[None, :] < H) & (2 * v[:, None] + right[None, :] < W)
    tl.store(dx + to, d, ok)


def forward(x: Tensor, weight: Tensor, bias: Tensor) -> tuple[Tensor, Tensor]:
    """``y`` and the phases that won, uint8; all tensors contiguous."""
    (Rx, B, C, H, W), (R, N, _, K, _) = x.shape, weight.shape
    P, Q = (H - K + 1) // 2, (W - K + 1) // 2
    y = x.new_empty(R, B, N, P, Q)
    phase = torch.empty_like(y, dtype=torch.uint8)
    pixels, tile = B * P * Q, FORWARD_SMALL if R * B * P * Q < 16384 else FORWARD
    _forward[(triton.cdiv(pixels, tile.pixels), R)](
        x, weight, bias, y, phase, (Rx > 1) * B * C * H * W, pixels, H, W, P, Q,
        C=C, K=K, N=N, NB=_block(N), BM=tile.pixels, BK=tile.depth, PRECISION=precision(), num_warps=tile.warps,
    )  # fmt: skip
    return y, phase


def weight_gradient(x: Tensor, g: Tensor, phase: Tensor, K: int) -> tuple[Tensor, Tensor]:
    """``dw [J, R, N, C, K, K]`` and ``db [J, R, N]`` of the cotangents ``g [J, R, B, N, P, Q]``."""
    (Rx, B, C, H, W), (J, R, _, N, P, Q) = x.shape, g.shape
    NB, pixels = _block(N), B * P * Q
    tile = FEW_TAPS if C * (K + 1) ** 2 <= 128 else MANY_TAPS
    tiles = triton.cdiv(C * (K + 1) ** 2, tile.depth)
    chunks = max(1, min(triton.cdiv(pixels, tile.pixels), tile.programs // (tiles * J * R)))
    partial = x.new_empty(J, R, chunks, 4 * NB, tiles * tile.depth)
    bias_partial = x.new_empty(J, R, chunks, 4 * NB)
    _weight_partial[(chunks * tiles, J * R)](
        x, g, phase, partial, bias_partial, (Rx > 1) * B * C * H * W, R, pixels, TAPS=tiles * tile.depth,
        H=H, W=W, P=P, Q=Q,
        C=C, K=K, N=N, NB=NB, TILES=tiles, CHUNKS=chunks, BM=tile.pixels, BK=tile.depth, PRECISION=precision(),
        num_warps=tile.warps,
    )  # fmt: skip
    dw, db = x.new_empty(J, R, N, C, K, K), x.new_empty(J, R, N)
    _weight_sum[(triton.cdiv(N * C * K * K + N, 32), J * R)](
        partial, bias_partial, dw, db, TAPS=tiles * tile.depth, C=C, K=K, N=N, NB=NB, CHUNKS=chunks, BLOCK=32, STEP=32
    )
    return dw, db


def input_gradient(g: Tensor, phase: Tensor, weight: Tensor, size: tuple[int, int]) -> Tensor:
    """``dx [J, R, B, C, H, W]`` of the cotangents ``g [J, R, B, N, P, Q]``."""
    (J, R, B, N, P, Q), (_, _, C, K, _), (H, W), tile = g.shape, weight.shape, size, INPUT
    CB, back = _block(C), _up(N * (K // 2 + 1) ** 2, tile.depth)
    table = weight.new_empty(R, 4, back, 4 * CB)
    _expand[(triton.cdiv(table[0].numel(), 512), R)](weight, table, BACK=back, C=C, K=K, N=N, CB=CB, BLOCK=512)
    dx = g.new_empty(J, R, B, C, H, W)
    places = B * triton.cdiv(H, 2) * triton.cdiv(W, 2)
    _input_gradient[(triton.cdiv(places, tile.pixels), J * R)](
        g, phase, table, dx, R, B * P * Q, BACK=back, H=H, W=W, P=P, Q=Q,
        C=C, K=K, N=N, CB=CB, BM=tile.pixels, BK=tile.depth, PRECISION=precision(), num_warps=tile.warps,
    )  # fmt: skip
    return dx


class Tile(NamedTuple):
    """What one program works on at a time, and how many programs there may be."""

    pixels: int
    depth: int
    warps: int
    programs: int = 0


FORWARD, FORWARD_SMALL, INPUT = Tile(128, 16, 4), Tile(32, 32, 2), Tile(128, 16, 4)
FEW_TAPS, MANY_TAPS = Tile(32, 64, 4, 256), Tile(32, 128, 4, 128)  # for the weights' gradient


def _block(count: int) -> int:
    return max(16, triton.next_power_of_2(count))


def _up(count: int, multiple: int) -> int:
    return -(-count // multiple) * multiple


def precision() -> str:
    """As PyTorch's own convolutions: TF32 unless that is switched off."""
    return "tf32" if torch.backends.cudnn.allow_tf32 else "ieee"
