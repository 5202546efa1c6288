"""The networks of several rays side by side on a GPU: each on a stream of its own, so that the small kernels of one
fill the gaps of the others. Autograd takes the gradients on the same streams."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Iterable
from typing import Any

import torch

from hyperfront.batches import tensors

LANES = 8
"""Streams; each keeps memory of its own."""


def side_by_side(function: Callable[..., Any], arguments: Iterable[tuple]) -> list[Any]:
    """``function(*each)`` for each of ``arguments``."""
    here, found = torch.cuda.current_stream(), []
    lanes = _lanes(here.device)
    for lane, each in zip(itertools.cycle(lanes), arguments):
        lane.wait_stream(here)
        with torch.cuda.stream(lane):
            found.append(function(*each))
    for lane in lanes[: len(found)]:
        here.wait_stream(lane)
    for result in tensors(found):
        result.record_stream(here)  # its memory is the lane's, which must not use it again before this stream did
    return found


@functools.cache
def _lanes(device: torch.device) -> list[torch.cuda.Stream]:
    return [torch.cuda.Stream(device) for _ in range(LANES)]
