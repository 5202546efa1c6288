"""Small operations that dominate a step, each with a plain PyTorch twin; on a GPU they are Triton or CUDA C."""

from __future__ import annotations

import functools
import importlib.util
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

import torch
from torch import Tensor

_PLAIN: ContextVar[bool] = ContextVar("plain", default=False)


@functools.cache
def _triton() -> bool:
    return importlib.util.find_spec("triton") is not None


def on_gpu(*tensors: Tensor) -> bool:
    """Whether the GPU programs can be used for these tensors."""
    return all(tensor.is_cuda for tensor in tensors) and _triton() and fused()


def fused() -> bool:
    """Whether fused operations may be used. Exported graphs consist of PyTorch's own operations."""
    return not _PLAIN.get() and not torch.compiler.is_exporting()


@contextmanager
def plain() -> Iterator[None]:
    """Run the plain twins within the ``with`` block: they have second derivatives."""
    token = _PLAIN.set(True)
    try:
        yield
    finally:
        _PLAIN.reset(token)
