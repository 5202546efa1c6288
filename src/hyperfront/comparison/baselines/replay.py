"""Replay of Hessian products as a CUDA graph. They are needed dozens of times at the same weights, and the second
derivative of BatchNorm alone is dozens of small kernels a layer, which the host would launch one by one each time."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import torch
from torch import Tensor

from hyperfront.kernels.capture import captured

Function = Callable[[Tensor], Tensor]


@contextmanager
def own_stream(device: torch.device) -> Iterator[None]:
    """Use another stream inside: a backward pass runs on the stream of its forward pass, and the default stream cannot
    be captured. On a CPU nothing changes."""
    if device.type != "cuda":
        yield
        return
    stream, usual = torch.cuda.Stream(device), torch.cuda.current_stream(device)
    stream.wait_stream(usual)
    with torch.cuda.stream(stream):
        yield
    usual.wait_stream(stream)


def replayed(function: Function, like: Tensor) -> Function:
    """Capture a function of tensors ``like`` this one; on a CPU, or if capture fails, return the function itself."""
    if not like.is_cuda:
        return function
    try:
        return _Replayed(function, like)
    except RuntimeError:
        torch.cuda.synchronize(like.device)
        return function


class _Replayed:
    def __init__(self, function: Function, like: Tensor):
        self.function = function  # keeps the memory alive that the graph reads
        self.given, self.graph = torch.zeros_like(like), torch.cuda.CUDAGraph()
        function(self.given)  # allocates, and chooses algorithms
        with captured(self.graph, stream=torch.cuda.current_stream(like.device)):
            self.found = function(self.given)

    def __call__(self, value: Tensor) -> Tensor:
        self.given.copy_(value)
        self.graph.replay()
        return self.found.clone()
