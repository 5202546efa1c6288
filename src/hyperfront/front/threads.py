"""CPU threads by the size of the work.

PyTorch uses all cores by default. For small networks that gains nothing, and on a busy machine it costs much: every
operation waits for the slowest of its threads. Inside :func:`few_for_small_work` there is one thread if a pass takes
fewer than :data:`SMALL` multiply-adds (``docs/benchmarks.md`` has the measurements). A number that the user has
set, by ``torch.set_num_threads`` or ``OMP_NUM_THREADS``, does not change.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch

from hyperfront.model import ParetoModel
from hyperfront.model.substitution import called

SMALL = 3e8
"""Multiply-adds of a forward pass over a batch below which one thread is used."""
VARIABLES = ("OMP_NUM_THREADS", "MKL_NUM_THREADS")
DEFAULT = torch.get_num_threads()
"""The number of threads when the package was imported."""


@contextmanager
def few_for_small_work(device: torch.device, work: Callable[[], float]) -> Iterator[None]:
    """Inside, one thread computes if ``work()`` is small and nobody has set the number of threads."""
    before = torch.get_num_threads()
    if before == 1 or device.type != "cpu" or _set_by_user(before) or work() >= SMALL:
        yield
        return
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def _set_by_user(count: int) -> bool:
    """PyTorch starts with a thread for each core, or for each two if they are halves of physical ones."""
    cores = os.cpu_count() or 1
    available = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else cores
    usual = {n for n in (cores, available, cores // 2, available // 2) if n}
    return count != DEFAULT or count not in usual or any(name in os.environ for name in VARIABLES)


def work(model: ParetoModel, inputs: Any) -> float:
    """The multiply-adds of one forward pass of the network over ``inputs``."""
    from torch.utils.flop_counter import FlopCounterMode  # imports Triton, which takes longer than this package

    mode, m = model.training, model.m
    model.eval()  # keeps running statistics
    try:
        with torch.no_grad(), torch.random.fork_rng(devices=[]):
            theta = model.hypernet(torch.full((1, m), 1 / m).to(next(model.parameters())))
            network = model.target.network(theta[0])
            with FlopCounterMode(display=False) as counter:
                called(network, inputs)
    finally:
        model.train(mode)
    return counter.get_total_flops() / 2
