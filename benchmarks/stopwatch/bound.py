"""A lower bound of a step's time: its arithmetic at the measured rate, plus its traffic at the measured bandwidth.

Arithmetic
    the matrix products and convolutions of the target, forward, and backward once for one model and for LS, and once
    for each objective for EPO (whose gradients differ); and those of the hypernetwork, forward and backward once.
Traffic
    the batch, and 28 bytes for each trained number: Adam reads it, its gradient and two moments, and writes all but
    the gradient.

Their sum and not the larger: the update of the weights cannot begin before the last of their gradient is there.
Activations count for nothing, since they could stay in a cache; so could small models, which then do better than 28
bytes at the bandwidth of a large copy.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch.utils.flop_counter import FlopCounterMode

from hyperfront.storage.nests import tensors
from stopwatch.cases import Case
from stopwatch.device import Rates

ADAM = 28


class Work(NamedTuple):
    """What a step cannot do without."""

    flops: int
    bytes: int

    def microseconds(self, rates: Rates) -> float:
        return 1e6 * (self.flops / rates.flops + self.bytes / rates.bandwidth)


def single_work(case: Case) -> Work:
    trained = sum(parameter.numel() for parameter in case.module().parameters())
    flops, size = _target(case, each=False)
    return Work(flops, ADAM * trained + size)


def front_work(case: Case, *, epo: bool, rays: int = 1) -> Work:
    model = case.model(torch.device("cpu"))
    trained = sum(parameter.numel() for parameter in model.parameters())
    flops, size = _target(case, each=epo)
    with FlopCounterMode(display=False) as counter:
        model.hypernet(torch.full((rays, model.m), 1 / model.m)).sum().backward()
    return Work(flops + counter.get_total_flops(), ADAM * trained + size)


def _target(case: Case, *, each: bool) -> tuple[int, int]:
    """Operations of the target on one batch, backward for ``each`` objective or once; and the bytes of the batch."""
    module, cpu = case.module(), torch.device("cpu")
    batch = next(iter(case.problem.train.source.epoch(case.recipe.batch_size, torch.Generator(), cpu, 0)))
    parameters = list(module.parameters())
    with FlopCounterMode(display=False) as counter:
        losses = case.losses(module, batch)
        for loss in losses if each else [sum(losses)]:
            torch.autograd.grad(loss, parameters, retain_graph=True, allow_unused=True)
    return counter.get_total_flops(), sum(tensor.nbytes for tensor in tensors(batch))
