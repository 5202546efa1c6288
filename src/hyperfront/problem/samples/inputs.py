"""Inputs as JSON for the page: images as bytes in base64, texts, and numbers."""

from __future__ import annotations

import base64
from typing import Any

import torch
from torch import Tensor

from hyperfront.problem.problem import Split
from hyperfront.storage.batches import Batch, row_range
from hyperfront.storage.nests import map_tensors

WIDEST = 192
"""Largest width in pixels. More would not show in a small picture, and every drag sends them."""
MOST = 64
"""The most numbers shown of one input or output."""
LONGEST = 600
"""The most characters shown of a text."""


def image(pixels: Tensor) -> dict[str, Any]:
    """An image ``[H, W]``, ``[1 | 3, H, W]`` or ``[H, W, 3]``; numbers that are not bytes are scaled to them."""
    pixels = pixels.movedim(0, -1) if pixels.ndim == 3 and len(pixels) in (1, 3) else pixels
    pixels = pixels.squeeze(-1) if pixels.ndim == 3 and pixels.shape[-1] == 1 else pixels
    return {"image": encoded(pixels if pixels.dtype == torch.uint8 else stretched(pixels.float()))}


def text(words: str) -> dict[str, Any]:
    """A text, shortened to 600 characters.

    >>> text("not bad at all")
    {'text': 'not bad at all'}
    """
    return {"text": words if len(words) <= LONGEST else words[:LONGEST] + "…"}


def numbers(values: Tensor) -> dict[str, Any]:
    """Show at most 64 numbers of a sequence or any other tensor."""
    return {"numbers": listed(values.float()), "of": values.numel()}


def encoded(pixels: Tensor) -> dict[str, Any]:
    """Encode an image ``[H, W]`` or ``[H, W, 3]`` of bytes, thinned to at most :data:`WIDEST` columns."""
    step = -(-pixels.shape[1] // WIDEST)
    pixels = pixels[::step, ::step].contiguous()
    return {
        "height": pixels.shape[0],
        "width": pixels.shape[1],
        "bytes": base64.b64encode(pixels.to(torch.uint8).cpu().numpy().tobytes()).decode(),
    }


def stretched(pixels: Tensor) -> Tensor:
    """Scale numbers to bytes: the smallest to 0, the largest to 255."""
    low, high = pixels.min(), pixels.max()
    return (255 * (pixels - low) / (high - low).clamp_min(1e-12)).round()


def first_rows(split: Split, count: int) -> Batch:
    """The first rows of a split, on the CPU."""
    batch = next(iter(split.source.batches(count, torch.device("cpu"))))
    return map_tensors(lambda tensor: tensor.cpu(), row_range(batch, 0, count))


def listed(tensor: Tensor) -> list[float]:
    """The first :data:`MOST` numbers of a tensor."""
    return rounded(tensor.detach().flatten()[:MOST])


def rounded(values: Tensor) -> Any:
    """Round to the four decimal places that the page shows."""
    return (values.double() * 1e4).round().div(1e4).tolist()
