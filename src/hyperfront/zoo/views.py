"""Random views of scenes: images with depth and classes, as if the camera had been moved."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F

SCALES = (1.0, 1.2, 1.5)


class RandomViews:
    """Mirror, zoom and brightness for batches ``(rgb [B, 3, H, W], depth [B, H, W], classes [B, H, W])``.

    A row's numbers are ``(mirror, scale, x, y, contrast, brightness)``; ``(1, 1, 0, 0, 1, 0)`` change nothing. Its view
    is a part of the image that is ``scale`` times smaller, enlarged to full size. ``x`` and ``y`` from -1 to 1 place
    the part, and ``mirror = -1`` swaps left and right. Larger things are nearer, so depth is divided by the scale.
    Depth stays in levels, which are no longer whole numbers.
    """

    def draw(self, rows: int, generator: torch.Generator) -> Tensor:
        mirror, scale, x, y, contrast, brightness = torch.rand(6, rows, generator=generator)
        return torch.stack(
            [
                torch.where(mirror < 0.5, -1.0, 1.0),
                torch.tensor(SCALES)[(scale * len(SCALES)).long()],
                2 * x - 1,
                2 * y - 1,
                0.8 + 0.4 * contrast,
                0.2 * brightness - 0.1,
            ],
            dim=1,
        )

    def __call__(self, batch: tuple[Tensor, Tensor, Tensor], numbers: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        rgb, depth, classes = batch
        mirror, scale, x, y, contrast, brightness = numbers[:, :, None, None].unbind(1)  # [B, 1, 1] each
        height, width = depth.shape[1:]
        across = mirror / scale * _centers(width, numbers) + x * (1 - 1 / scale)  # [B, 1, W]
        down = _centers(height, numbers)[:, None] / scale + y * (1 - 1 / scale)  # [B, H, 1]
        grid = torch.stack(torch.broadcast_tensors(across, down), dim=-1)
        seen = F.grid_sample(rgb.float(), grid, "bilinear", "border", align_corners=False)
        levels, label = F.grid_sample(  # these values must not be mixed across edges
            torch.stack([depth.float(), classes.float()], dim=1), grid, "nearest", "border", align_corners=False
        ).unbind(1)
        seen = 127.5 + (seen - 127.5) * contrast[:, None] + 255 * brightness[:, None]
        return seen.clamp(0, 255), (levels + 0.5) / scale - 0.5, label.round().to(classes.dtype)


def _centers(count: int, like: Tensor) -> Tensor:
    """The centers of pixels, if the image extends from -1 to 1."""
    return (2 * torch.arange(count, dtype=like.dtype, device=like.device) + 1) / count - 1
