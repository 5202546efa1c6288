"""The convolution of ``conv.cu`` as functions of tensors.

Shapes: ``x [Rx, B, C, H, W]`` with ``Rx`` 1 or ``R``, ``weight [R, N, C, K, K]``, ``bias [R, N]``, and
``y [R, B, N, P, Q]``; for the gradients several cotangents ``g [J, R, B, N, P, Q]`` at once. Sums over pixels are taken
in a fixed order. All tensors are contiguous.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from hyperfront.kernels.gpu.cuda_source import SHARED, launch, up


class Shape(NamedTuple):
    """``C`` channels of ``H x W``, ``N`` filters of ``K x K``, ``P x Q`` pooled pixels."""

    C: int
    H: int
    W: int
    N: int
    K: int
    P: int
    Q: int

    @classmethod
    def of(cls, size: tuple[int, int], weight: Tensor) -> Shape:
        (H, W), (N, C, K, _) = size, weight.shape[-4:]
        return cls(C, H, W, N, K, (H - K + 1) // 2, (W - K + 1) // 2)

    @property
    def row(self) -> int:
        """The constant ``ROW`` of ``conv.cu``."""
        return self.W if 10 <= self.W % 32 <= 22 else (self.W + 15) // 32 * 32 + 16

    def images(self) -> int:
        """The number of images of a block; small images share a block."""
        return max(1, 64 // (self.P * self.Q))

    def together(self, J: int) -> int:
        """The number of cotangents of a block of the weights' kernel: one, two or four, as many as fit."""
        return max((j for j in (1, 2, 4) if J % j == 0 and self._weight_floats(j) * 4 <= SHARED), default=1)

    def filters(self) -> int:
        """The number of filters of a turn of the input's kernel: as many as fit, in turns of equal size."""
        each = 4 * ((self.H + self.K - 1) * (self.W + self.K - 1) + self.K**2 * (_spread(self.C) + 1))
        some = max(1, (SHARED - 32 * (_spread(self.C) + 1)) // each)
        return up(self.N, up(self.N, some))

    def fits(self) -> bool:
        """Whether images and weights of this shape fit into a block's shared memory and registers."""
        taps, image = self.C * self.K**2, self.C * self.H * self.row
        forward = self.images() * image + up(taps, 8) * 8 * (_spread(self.N) + 1)
        filters = self.filters()
        back = filters * (self.H + self.K - 1) * (self.W + self.K - 1) + up(filters * self.K**2, 8) * 8 * (
            _spread(self.C) + 1
        )
        few = self.N <= 32 and self.C <= 32 and taps <= 256
        return self.P > 0 and self.Q > 0 and few and 4 * max(forward, back, self._weight_floats(1)) <= SHARED

    def _weight_floats(self, J: int) -> int:
        pixels = self.P * self.Q + self.P * self.Q % 2
        loaded = self.images() * (self.C * self.H * self.row + J * self.N * pixels)
        sums = up(8 // self.parts(), 2) * J * self.N * (self.C * self.K**2 + 1)
        return max(loaded, sums) + up(self.images() * self.N * pixels, 4)

    def parts(self) -> int:
        """The number of parts of the taps, in different warps, so that their sums fit into registers."""
        return 4 if self.C * self.K**2 > 128 else 1


def _spread(count: int) -> int:
    """The macro ``SPREAD`` of ``conv.cu``."""
    return 8 * (up(count, 8) | 1)


def forward(x: Tensor, weight: Tensor, bias: Tensor) -> tuple[Tensor, Tensor]:
    """Compute ``y``, and the phases of the largest values as uint8."""
    (Rx, B, C, H, W), R, shape = x.shape, len(weight), Shape.of((x.shape[-2], x.shape[-1]), weight)
    y = x.new_empty(R, B, shape.N, shape.P, shape.Q)
    phase = torch.empty_like(y, dtype=torch.uint8)
    images = shape.images()
    threads = 32 * min(16, max(8, up(images * shape.P * shape.Q, 16)))
    launch(
        "conv.cu", "forward", (up(B, images), R), threads, x, weight, bias, y, phase, B, (Rx > 1) * B * C * H * W,
        FORWARD=1, B=images, THREADS=threads, **shape._asdict(),
    )  # fmt: skip
    return y, phase


def weight_gradient(x: Tensor, g: Tensor, phase: Tensor, weight: Tensor) -> tuple[Tensor, Tensor]:
    """Compute ``dw [J, R, N, C, K, K]`` and ``db [J, R, N]``."""
    (Rx, B, C, H, W), (J, R), shape = x.shape, g.shape[:2], Shape.of((x.shape[-2], x.shape[-1]), weight)
    together, size = shape.together(J), shape.N * (C * shape.K**2 + 1)
    parts = shape.parts()
    sizes = {"WEIGHT": 1, "J": together, "PARTS": parts, "GROUPS": 8 // parts, "B": shape.images(), "THREADS": 256}
    sizes |= shape._asdict()
    blocks = up(B, shape.images())
    partial = x.new_empty(J, R, blocks, size)
    dw, db = x.new_empty(J, *weight.shape), x.new_empty(J, R, shape.N)
    launch(
        "conv.cu", "weight", (blocks, R * J // together), 256,
        x, g, phase, partial, B, (Rx > 1) * B * C * H * W, R, **sizes,
    )  # fmt: skip
    launch(
        "conv.cu", "weight_sum", (up(size, 32), J * R), 256,
        partial, dw, db, blocks, WEIGHT_SUM=1, **shape._asdict(),
    )  # fmt: skip
    return dw, db


def input_gradient(g: Tensor, phase: Tensor, weight: Tensor, size: tuple[int, int]) -> Tensor:
    """Compute ``dx [J, R, B, C, H, W]``."""
    (J, R, B), shape = g.shape[:3], Shape.of(size, weight)
    dx = g.new_empty(J, R, B, shape.C, *size)
    warps = up(shape.H * shape.W, 32)
    pieces = up(warps, 16)
    threads = 32 * up(warps, pieces)
    launch(
        "conv.cu", "input", (B * pieces, J * R), threads, weight, g, phase, dx, B, R,
        INPUT=1, PIECES=pieces, SOME=shape.filters(), THREADS=threads, **shape._asdict(),
    )  # fmt: skip
    return dx
