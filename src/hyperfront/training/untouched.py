"""A model that is tried out, and afterwards is as it was."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor

from hyperfront.model import ParetoModel
from hyperfront.preferences import das_dennis


@contextmanager
def untouched(model: ParetoModel) -> Iterator[Callable[[], bool]]:
    """Afterwards the model, its gradients and random numbers are as they were. What it yields puts buffers and random
    numbers back at once, and says whether a buffer had changed.

    BatchNorm has the statistics of the module that was wrapped, if none were estimated yet.
    """
    target, mode = model.target, model.training
    gradients = [(p, p.grad) for p in model.parameters()]
    statistics, device = target.statistics, model.device
    if target.norms and target.batchnorm == "grid" and not len(statistics):
        own: list[Any] = [part for layer in target.norms.values() for part in (layer.running_mean, layer.running_var)]
        count = len(target.knots or []) or len(das_dennis(model.m, target.grid(model.m)))
        target.statistics = torch.cat([part.to(statistics) for part in own]).repeat(count, 1)
    buffers = {name: buffer.clone() for name, buffer in model.named_buffers()}
    with torch.random.fork_rng(devices=[device] if device.type == "cuda" else []):
        random = random_state(device)

        def restore() -> bool:
            pairs = [(buffer, buffers[name]) for name, buffer in model.named_buffers()]
            changed = any(not torch.equal(buffer, before) for buffer, before in pairs)
            for buffer, before in pairs:
                buffer.copy_(before)
            torch.set_rng_state(random[0])
            for state in random[1:]:
                torch.cuda.set_rng_state(state, device)
            return changed

        for p, _ in gradients:
            p.grad = None
        try:
            yield restore
        finally:
            restore()
            target.statistics = statistics
            model.train(mode)
            for p, gradient in gradients:
                p.grad = gradient


def random_state(device: torch.device) -> list[Tensor]:
    """The states of the generators that a module there may draw from."""
    return [torch.get_rng_state(), *([torch.cuda.get_rng_state(device)] if device.type == "cuda" else [])]
