"""Determinism: only algorithms that give the same bytes every time."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

import torch

WORKSPACE = "CUBLAS_WORKSPACE_CONFIG"
"""A variable of the environment. Without it, matrix products on a GPU may differ between runs, and PyTorch refuses
them in deterministic mode."""


@contextmanager
def only_deterministic(wanted: bool) -> Iterator[None]:
    """If ``wanted``, make PyTorch refuse operations without a deterministic algorithm within the ``with`` block."""
    if not wanted:
        yield
        return
    mode, benchmark = torch.get_deterministic_debug_mode(), torch.backends.cudnn.benchmark
    workspace = WORKSPACE in os.environ
    try:
        os.environ.setdefault(WORKSPACE, ":4096:8")
        torch.backends.cudnn.benchmark = False
        torch.use_deterministic_algorithms(True)
        yield
    finally:
        torch.set_deterministic_debug_mode(mode)
        torch.backends.cudnn.benchmark = benchmark
        if not workspace:
            del os.environ[WORKSPACE]
