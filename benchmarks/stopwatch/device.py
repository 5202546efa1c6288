"""The device: what it is, a clock for it, and how fast it multiplies and copies."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, NamedTuple

import torch


class Rates(NamedTuple):
    """What the device was measured to do at its best."""

    flops: float
    """Floating point operations a second, of a large float32 matrix product in the precision of this run."""
    bandwidth: float
    """Bytes read and written a second, by a large copy."""


def seconds(device: torch.device) -> float:
    """The time, when the device has done all that it was told to.

    On one thread of a CPU it is the time that this process had the processor, so that others on the machine do not
    count (they still slow it down, by taking turns in its caches).
    """
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    elif torch.get_num_threads() == 1:
        return time.process_time()
    return time.perf_counter()


def measure_rates(device: torch.device, *, repetitions: int) -> Rates:
    side, floats = (8192, 2**29) if device.type == "cuda" else (1024, 2**25)
    a, b = torch.randn(2, side, side, device=device)
    source = torch.zeros(floats, device=device)
    to = torch.empty_like(source)
    return Rates(
        flops=2 * side**3 / _least(lambda: a @ b, device, repetitions),
        bandwidth=2 * 4 * floats / _least(lambda: to.copy_(source), device, repetitions),
    )


def _least(work: Callable[[], Any], device: torch.device, repetitions: int) -> float:
    times = []
    for _ in range(repetitions):
        start = seconds(device)
        work()
        times.append(seconds(device) - start)
    return min(times)
