"""A product with the Hessian, asked for dozens of times at the same weights, as a CUDA graph: the second derivative of
BatchNorm alone is dozens of small kernels a layer, which the host would have to name one by one each time."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import torch
from torch import Tensor

from hyperfront.kernels.capture import captured

Function = Callable[[Tensor], Tensor]


@contextmanager
def own_stream(device: torch.device) -> Iterator[None]:
    """Where a function that is to be replayed is made: a backward pass runs on the stream of its forward pass, and the
    usual one cannot be captured. On a CPU nothing changes."""
    if device.type != "cuda":
        yield
        return
    stream, usual = torch.cuda.Stream(device), torch.cuda.current_stream(device)
    stream.wait_stream(usual)
    with torch.cuda.stream(stream):
        yield
    usual.wait_stream(stream)


def replayed(function: Function, like: Tensor) -> Function:
    """The same function of tensors ``like`` this one; as it is on a CPU, or where it cannot be captured."""
    if not like.is_cuda:
        return function
    try:
        return _Replayed(function, like)
    except RuntimeError:
        torch.cuda.synchronize(like.device)
        return function


class _Replayed:
    def __init__(self, function: Function, like: Tensor):
        self.function = function  # kept, and with it the memory that the graph reads
        self.given, self.graph = torch.zeros_like(like), torch.cuda.CUDAGraph()
        function(self.given)  # allocates, and chooses algorithms
        with captured(self.graph, stream=torch.cuda.current_stream(like.device)):
            self.found = function(self.given)

    def __call__(self, value: Tensor) -> Tensor:
        self.given.copy_(value)
        self.graph.replay()
        return self.found.clone()
