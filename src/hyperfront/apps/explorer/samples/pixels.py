"""Images as JSON: bytes in base64, which the page paints in its own colors."""

from __future__ import annotations

import base64
from typing import Any

import torch
from torch import Tensor

from hyperfront.problem import Split
from hyperfront.storage.batches import Batch, row_range
from hyperfront.storage.nests import map_tensors

WIDEST = 192
"""Largest width in pixels. More would not show in a small picture, and every drag sends them."""


def encoded(image: Tensor) -> dict[str, Any]:
    """Encode an image ``[H, W]`` or ``[H, W, 3]`` of bytes, thinned to at most :data:`WIDEST` columns."""
    step = -(-image.shape[1] // WIDEST)
    image = image[::step, ::step].contiguous()
    return {
        "height": image.shape[0],
        "width": image.shape[1],
        "bytes": base64.b64encode(image.to(torch.uint8).cpu().numpy().tobytes()).decode(),
    }


def stretched(image: Tensor) -> Tensor:
    """Scale numbers to bytes: the smallest to 0, the largest to 255."""
    low, high = image.min(), image.max()
    return (255 * (image - low) / (high - low).clamp_min(1e-12)).round()


def first_rows(split: Split, count: int) -> Batch:
    """The first rows of a split, on the CPU."""
    batch = next(iter(split.source.batches(count, torch.device("cpu"))))
    return map_tensors(lambda tensor: tensor.cpu(), row_range(batch, 0, count))


def rounded(values: Tensor) -> Any:
    """Round to four decimal places, which is as fine as the page shows."""
    return (values.double() * 1e4).round().div(1e4).tolist()
