"""Small operations that dominate a step, each with a plain PyTorch twin; on a GPU they are Triton or CUDA C."""

from __future__ import annotations

import functools
import importlib.util
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

import torch
from torch import Tensor

_UNFUSED: ContextVar[bool] = ContextVar("unfused", default=False)


@functools.cache
def _triton() -> bool:
    return importlib.util.find_spec("triton") is not None


def on_gpu(*tensors: Tensor) -> bool:
    """Whether the GPU programs can be used for these tensors."""
    return all(tensor.is_cuda for tensor in tensors) and _triton() and fused()


def fused() -> bool:
    """Whether fused operations may be used. Exported graphs consist of PyTorch's own operations."""
    return not _UNFUSED.get() and not torch.compiler.is_exporting()


@contextmanager
def unfused() -> Iterator[None]:
    """Run the plain twins within the ``with`` block: they have second derivatives."""
    token = _UNFUSED.set(True)
    try:
        yield
    finally:
        _UNFUSED.reset(token)
