"""Augmentation of images: each image is moved by a few pixels."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional as F

from hyperfront.storage.batches import Batch


@dataclass(frozen=True)
class Shift:
    """Moves the images ``[B, C, H, W]`` of a batch ``(images, ...)`` by up to ``pixels``; new pixels are 0.

    The images are padded on all sides, and image ``b`` becomes the window of its padded self that begins at
    ``pixels - numbers[b]``.

    >>> image = torch.arange(4, dtype=torch.uint8).view(1, 1, 2, 2)
    >>> Shift(1)((image,), torch.tensor([[1, 0]]))[0]
    tensor([[[[0, 0],
              [0, 1]]]], dtype=torch.uint8)
    """

    pixels: int

    def draw(self, rows: int, generator: torch.Generator) -> Tensor:
        """Draw the moves down and right, ``[rows, 2]``, uniform in {-pixels..pixels}."""
        return torch.randint(-self.pixels, self.pixels + 1, (rows, 2), dtype=torch.int8, generator=generator)

    def __call__(self, batch: Batch, numbers: Tensor) -> Batch:
        images, *rest = batch
        height, width = images.shape[-2:]
        windows = F.pad(images, [self.pixels] * 4).unfold(2, height, 1).unfold(3, width, 1)
        down, right = (self.pixels - numbers.long()).unbind(1)
        return windows[torch.arange(len(images), device=images.device), :, down, right], *rest
