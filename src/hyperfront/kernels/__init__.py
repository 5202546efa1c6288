"""Small operations that dominate a step, each with a plain PyTorch twin; on a GPU they are Triton programs."""

from __future__ import annotations

import functools
import importlib.util

import torch
from torch import Tensor


@functools.cache
def _triton() -> bool:
    return importlib.util.find_spec("triton") is not None


def on_gpu(*tensors: Tensor) -> bool:
    """Whether Triton programs can work on these tensors. An exported graph is made of PyTorch's own operations."""
    return all(tensor.is_cuda for tensor in tensors) and _triton() and not torch.compiler.is_exporting()
