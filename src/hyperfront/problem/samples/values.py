"""Samples of any problem: inputs and outputs as numbers or images. Analytic problems show their point."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, final

from torch import Tensor

from hyperfront.problem.problem import Split
from hyperfront.problem.samples.inputs import MOST, first_rows, image, listed, numbers
from hyperfront.storage.batches import rows
from hyperfront.storage.nests import tensors

COUNT = 6


@final
class Values:
    """The first rows of the split; inputs that look like images are shown as images.

    Small tensors of the batch that are no inputs are shown as targets.
    """

    def __init__(self, split: Split):
        self.batch = first_rows(split, COUNT)
        self.x = split.problem.inputs(self.batch)
        self.count = rows(self.x)

    def document(self) -> dict[str, Any]:
        own = {id(tensor) for tensor in tensors(self.x)}
        others = [tensor for tensor in tensors(self.batch) if tensor.ndim and id(tensor) not in own]
        return {
            "kind": "values",
            "items": [
                {
                    "inputs": [_shown(tensor[row]) for tensor in tensors(self.x) if tensor.ndim],
                    "targets": [listed(tensor[row]) for tensor in others if tensor[row].numel() <= MOST],
                }
                for row in range(self.count)
            ],
        }

    def predict(self, network: Callable[[Any], Any]) -> Any:
        """``[items][outputs][numbers]``."""
        outputs = [tensor for tensor in tensors(network(self.x)) if tensor.ndim and len(tensor) == self.count]
        return [[listed(tensor[row]) for tensor in outputs] for row in range(self.count)]


@final
class Coordinates:
    """The coordinates of a point: an analytic problem takes no input, and its network is a point."""

    def document(self) -> dict[str, Any]:
        return {"kind": "point", "items": []}

    def predict(self, network: Callable[[Any], Any]) -> Any:
        """The coordinates."""
        return numbers(network(()))


def _shown(tensor: Tensor) -> dict[str, Any]:
    """Show one row of an input: ``[1 | 3, H, W]`` or ``[H, W]`` as an image, everything else as numbers."""
    sizes = tensor.shape[1:] if tensor.ndim == 3 and len(tensor) in (1, 3) else tensor.shape
    return image(tensor) if len(sizes) == 2 and min(sizes) >= 8 else numbers(tensor)
