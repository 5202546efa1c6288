"""Augmentation of images: each is moved, turned and resized a little, by amounts of its own."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional as F

from hyperfront.batches import Batch


@dataclass(frozen=True)
class Jitter:
    """Changes the bytes of images ``[B, C, H, W]`` in a batch ``(images, ...)``; what comes in from outside is 0.

    An image is turned about its centre by up to ``degrees``, resized by a factor of up to ``1 + zoom`` or its
    reciprocal, and moved by up to ``pixels`` whole pixels. With ``c`` the centre, ``t`` the move, ``s`` the factor and
    ``R`` the rotation, the pixel at ``p`` is read from ``R^T (p - c - t) / s + c``, between pixels by bilinear
    interpolation.
    """

    pixels: int
    degrees: float
    zoom: float

    def draw(self, rows: int, generator: torch.Generator) -> Tensor:
        """Down, right, radians and the logarithm of the factor, ``[rows, 4]``."""
        move = torch.randint(-self.pixels, self.pixels + 1, (rows, 2), generator=generator).float()
        most = torch.tensor([math.radians(self.degrees), math.log1p(self.zoom)])
        return torch.cat([move, most * (2 * torch.rand(rows, 2, generator=generator) - 1)], dim=1)

    def __call__(self, batch: Batch, numbers: Tensor) -> Batch:
        images, *rest = batch
        height, width = images.shape[-2:]
        down, right, angle, factor = numbers[:, :, None, None].unbind(1)  # [B, 1, 1] each
        y = torch.arange(height, device=images.device)[:, None] - (height - 1) / 2 - down
        x = torch.arange(width, device=images.device)[None, :] - (width - 1) / 2 - right
        cos, sin = angle.cos() * torch.exp(-factor), angle.sin() * torch.exp(-factor)
        grid = torch.stack([2 / width * (cos * x + sin * y), 2 / height * (cos * y - sin * x)], dim=-1)
        seen = F.grid_sample(images.float(), grid, "bilinear", "zeros", align_corners=False)
        return seen.round().to(images.dtype), *rest
