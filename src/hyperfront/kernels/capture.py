"""Record work as a CUDA graph, undisturbed by Python's garbage collector.

An unused graph may be part of a reference cycle, which the collector frees whenever it runs. CUDA does not allow a
graph to be freed while another one is recorded, and drops the recording.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch


@contextmanager
def captured(graph: torch.cuda.CUDAGraph, *, stream: torch.cuda.Stream, pool: Any = None) -> Iterator[None]:
    """Record this thread's work on ``stream`` in ``graph`` within the ``with`` block, instead of doing it."""
    collects = gc.isenabled()
    gc.disable()
    try:
        with torch.cuda.graph(graph, pool, stream, capture_error_mode="thread_local"):
            yield
    finally:
        if collects:
            gc.enable()
