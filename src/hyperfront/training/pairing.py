"""Losses that compare the output of every row with the targets of all rows.

``output - target`` of shapes ``[B]`` and ``[B, 1]`` is ``[B, B]``: PyTorch broadcasts, and the module learns the mean
of the targets. Such a loss uses the targets but not their order, which is how it is found.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from hyperfront.errors import LossError
from hyperfront.storage import nests
from hyperfront.storage.batches import Batch


@torch.no_grad()
def refuse_all_pairs(name: str, loss: Callable[[Any, Batch], Tensor], output: Any, batch: Batch) -> None:
    """Raise an error if outputs ``[B]`` meet targets ``[B, 1]``, or the reverse, and their order does not matter."""
    outputs = [t for t in nests.tensors(output) if t.ndim in (1, 2) and len(t) > 1 and (t != t[:1]).any()]
    for place, target in nests.named(batch, "batch"):
        odd = [t for t in outputs if {t.shape, target.shape} == {t.shape[:1], (len(t), 1)}]
        if odd and (target != target.roll(1, 0)).any() and _ignores_order(loss, output, batch, target):
            raise LossError(
                f"the objective {name!r} compares the output of every row with the targets of all rows",
                got=f"an output {list(odd[0].shape)}, and {list(target.shape)} in {place}",
                expected="the same shape",
                fix="output.squeeze(1), or target.squeeze(1), in the loss",
            )


def _ignores_order(loss: Callable[[Any, Batch], Tensor], output: Any, batch: Batch, target: Tensor) -> bool:
    def at(other: Tensor) -> Tensor:
        return loss(output, nests.map_tensors(lambda tensor: other if tensor is target else tensor, batch))

    value = at(target)
    return torch.allclose(at(target.roll(1, 0)), value, rtol=1e-5) and not torch.allclose(
        at(torch.zeros_like(target)), value, rtol=1e-5
    )
