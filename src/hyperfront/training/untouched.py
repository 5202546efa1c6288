"""Restore a model after it was tried out."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import torch
from torch import Tensor

from hyperfront.model import ParetoModel
from hyperfront.preferences import das_dennis


@contextmanager
def untouched(model: ParetoModel) -> Iterator[Callable[[], bool]]:
    """Restore the model, its gradients and random numbers after the ``with`` block. The function that it yields
    restores buffers and random numbers at once, and returns whether a buffer had changed.

    Within the block, BatchNorm has the statistics of the wrapped module, if none were estimated yet.
    """
    target, mode = model.target, model.training
    gradients = [(p, p.grad) for p in model.parameters()]
    statistics, device = target.statistics, model.device
    if target.norms and target.batchnorm == "grid" and not len(statistics):
        names = [f"{name}.{part}" for name in target.norms for part in ("running_mean", "running_var")]
        shared = target.shared()
        own = [shared[name.removeprefix(".")] for name in names]
        count = len(target.knots or []) or len(das_dennis(model.m, target.grid(model.m)))
        target.statistics = torch.cat([part.to(statistics) for part in own]).repeat(count, 1)
    stores = [layer._buffers for layer in model.modules()]
    buffers = [(store, key, b, b.clone()) for store in stores for key, b in store.items() if b is not None]
    with torch.random.fork_rng(devices=[device] if device.type == "cuda" else []):
        random = random_state(device)

        def restore() -> bool:
            changed = any(
                store[key] is not buffer or not torch.equal(buffer, kept) for store, key, buffer, kept in buffers
            )
            for store, key, buffer, kept in buffers:
                store[key] = buffer.copy_(kept)  # the module may have assigned another one
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
    """Return the states of the generators that a module on the device may draw from."""
    return [torch.get_rng_state(), *([torch.cuda.get_rng_state(device)] if device.type == "cuda" else [])]
