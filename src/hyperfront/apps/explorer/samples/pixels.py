"""Images as JSON: bytes in base64, painted by the page, which knows the colours."""

from __future__ import annotations

import base64
from typing import Any

import torch
from torch import Tensor

from hyperfront.problem import Split
from hyperfront.storage.batches import Batch, row_range
from hyperfront.storage.nests import map_tensors

WIDEST = 192
"""Pixels: more than that is not seen in a small picture, and has to be sent at every drag."""


def encoded(image: Tensor) -> dict[str, Any]:
    """An image ``[H, W]`` or ``[H, W, 3]`` of bytes, thinned to at most :data:`WIDEST` columns."""
    step = -(-image.shape[1] // WIDEST)
    image = image[::step, ::step].contiguous()
    return {
        "height": image.shape[0],
        "width": image.shape[1],
        "bytes": base64.b64encode(image.to(torch.uint8).cpu().numpy().tobytes()).decode(),
    }


def stretched(image: Tensor) -> Tensor:
    """Numbers of any size as bytes, from the smallest to the largest."""
    low, high = image.min(), image.max()
    return (255 * (image - low) / (high - low).clamp_min(1e-12)).round()


def first_rows(split: Split, count: int) -> Batch:
    """The first rows of a split, on the CPU."""
    batch = next(iter(split.source.batches(count, torch.device("cpu"))))
    return map_tensors(lambda tensor: tensor.cpu(), row_range(batch, 0, count))


def rounded(values: Tensor) -> Any:
    """To four digits behind the point: finer is not seen, and has to be sent."""
    return (values.double() * 1e4).round().div(1e4).tolist()
