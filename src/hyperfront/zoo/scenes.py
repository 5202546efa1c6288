"""NYUv2: images with segmentation and depth, true and predicted."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, final

import torch
from torch import Tensor

from hyperfront.problem import Split
from hyperfront.problem.samples.inputs import encoded, first_rows
from hyperfront.zoo.data.nyuv2 import CLASSES, METERS_PER_LEVEL

COUNT = 4
NONE = 255
"""The value for a pixel without a class."""


@final
class Scenes:
    """The first images of the split; depth is in bytes, from 0 to about 10 m. ``depth_of`` reads it from the output."""

    def __init__(self, split: Split, depth_of: Callable[[Tensor], Tensor]):
        self.depth_of = depth_of
        self.batch = first_rows(split, COUNT)
        self.x = split.problem.inputs(self.batch)

    def document(self) -> dict[str, Any]:
        return {
            "kind": "scenes",
            "classes": list(CLASSES),
            "meters": 256 * METERS_PER_LEVEL,
            "items": [
                {
                    "image": encoded(rgb.movedim(0, -1)),
                    "segmentation": encoded(torch.where(classes < 0, NONE, classes.long())),
                    "depth": encoded(depth),
                }
                for rgb, depth, classes in zip(*self.batch)
            ],
        }

    def predict(self, network: Callable[[Any], Any]) -> Any:
        """``[items]`` with ``segmentation`` and ``depth``."""
        output = network(self.x)
        levels = (self.depth_of(output) / METERS_PER_LEVEL - 0.5).round().clamp(0, 255)
        return [
            {"segmentation": encoded(segmentation), "depth": encoded(depth)}
            for segmentation, depth in zip(output[:, :-1].argmax(1), levels)
        ]
