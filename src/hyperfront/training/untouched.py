"""Restore a model after it was tried out."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import nn

from hyperfront.model import ParetoModel
from hyperfront.model.normalization import modes_kept
from hyperfront.model.statistics import grid
from hyperfront.preferences import das_dennis
from hyperfront.storage.containers import PLAIN
from hyperfront.training.randomness import Randomness


@contextmanager
def untouched(model: ParetoModel) -> Iterator[Callable[[], bool]]:
    """Restore the model, its gradients and random numbers after the ``with`` block. The function that it yields
    restores buffers, numbers in attributes and random numbers at once, and returns whether a buffer or attribute had
    changed.

    Within the block, BatchNorm has the statistics of the wrapped module, if none were estimated yet.
    """
    target = model.target
    gradients = [(p, p.grad) for p in model.parameters()]
    statistics, device = target.statistics, model.device
    if target.norms and target.batchnorm == "grid" and not len(statistics):
        names = [f"{name}.{part}" for name in target.norms for part in ("running_mean", "running_var")]
        shared = target.shared()
        own = [shared[name.removeprefix(".")] for name in names]
        count = len(target.knots or []) or len(das_dennis(model.m, grid(model.m)))
        target.statistics = torch.cat([part.to(statistics) for part in own]).repeat(count, 1)
    stores = [layer._buffers for layer in model.modules()]
    buffers = [(store, key, b, b.clone()) for store in stores for key, b in store.items() if b is not None]
    randomness = Randomness(device, target.skeleton)
    attributes, states = _Attributes(target.skeleton), randomness.states()

    def restore() -> bool:
        changed = any(store[key] is not buffer or not torch.equal(buffer, kept) for store, key, buffer, kept in buffers)
        for store, key, buffer, kept in buffers:
            store[key] = buffer.copy_(kept)  # the module may have assigned another one
        randomness.load(states)
        return attributes.restore() or changed

    for p, _ in gradients:
        p.grad = None
    try:
        with modes_kept(model, target):
            yield restore
    finally:
        restore()
        target.statistics = statistics
        for p, gradient in gradients:
            p.grad = gradient


class _Attributes:
    """The numbers and texts in the attributes of layers, such as a count of calls."""

    def __init__(self, module: nn.Module):
        self.kept = [(vars(layer), _numbers(vars(layer))) for layer in module.modules()]

    def restore(self) -> bool:
        """Restore the numbers, and return whether one had changed."""
        changed = False
        for attributes, kept in self.kept:
            now = _numbers(attributes)
            if now != kept:
                changed = True
                for name in now.keys() - kept.keys():
                    del attributes[name]
                attributes.update(kept)
        return changed


def _numbers(attributes: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in attributes.items() if isinstance(value, PLAIN) and name != "training"}
