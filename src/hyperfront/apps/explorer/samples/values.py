"""Samples of your own problems: inputs and outputs as numbers. Analytic problems show their point."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch import Tensor

from hyperfront.apps.explorer.samples.pixels import encoded, first_rows, rounded, stretched
from hyperfront.problem import Problem, Split
from hyperfront.storage.batches import rows
from hyperfront.storage.nests import tensors

COUNT = 6
MOST = 64
"""The most numbers shown of one input or output."""


class Values:
    """The first rows of the split; inputs that look like images are shown as images.

    Small tensors of the batch that are no inputs are shown as targets.
    """

    def __init__(self, problem: Problem, split: Split):
        self.batch = first_rows(split, COUNT)
        self.x = problem.inputs(self.batch)
        self.count = rows(self.x)

    def document(self) -> dict[str, Any]:
        own = {id(tensor) for tensor in tensors(self.x)}
        others = [tensor for tensor in tensors(self.batch) if tensor.ndim and id(tensor) not in own]
        return {
            "kind": "values",
            "items": [
                {
                    "inputs": [_shown(tensor[row]) for tensor in tensors(self.x) if tensor.ndim],
                    "targets": [_numbers(tensor[row]) for tensor in others if tensor[row].numel() <= MOST],
                }
                for row in range(self.count)
            ],
        }

    def predict(self, network: Callable[[Any], Any]) -> Any:
        """``[items][outputs][numbers]``."""
        outputs = [tensor for tensor in tensors(network(self.x)) if tensor.ndim and len(tensor) == self.count]
        return [[_numbers(tensor[row]) for tensor in outputs] for row in range(self.count)]


class Coordinates:
    """The coordinates of a point: an analytic problem takes no input, and its network is a point."""

    def document(self) -> dict[str, Any]:
        return {"kind": "point", "items": []}

    def predict(self, network: Callable[[Any], Any]) -> Any:
        """The coordinates."""
        point = network(())
        return {"numbers": _numbers(point), "of": point.numel()}


def _numbers(tensor: Tensor) -> list[float]:
    return rounded(tensor.detach().flatten()[:MOST])


def _shown(tensor: Tensor) -> dict[str, Any]:
    """Show one row of an input: ``[1 | 3, H, W]`` or ``[H, W]`` as an image, everything else as numbers."""
    image = tensor.movedim(0, -1) if tensor.ndim == 3 and len(tensor) in (1, 3) else tensor
    image = image.squeeze(-1) if image.ndim == 3 else image
    if min(image.shape[:2], default=0) >= 8 and (image.ndim == 2 or image.shape[2:] == (3,)):
        return {"image": encoded(stretched(image.float()))}
    return {"numbers": _numbers(tensor.float()), "of": tensor.numel()}
