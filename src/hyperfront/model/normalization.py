"""Normalization: layers whose running averages belong to one network, and not to the networks of all rays.

A layer that is in evaluation mode while the module trains *rests*: it was frozen, by hand before the module was
wrapped or by a ``train()`` of the module's own, and always uses the running averages that it has.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm
from torch.nn.modules.instancenorm import _InstanceNorm

if TYPE_CHECKING:
    from hyperfront.model.target import Target


class Normalization:
    """The BatchNorm ``layers`` of a module, by name: they use the batch in training, given averages in evaluation."""

    def __init__(self, module: nn.Module, adapted: bool):
        named = dict(module.named_modules()) if adapted else {}
        self.layers: dict[str, _BatchNorm] = {
            name: layer
            for name, layer in named.items()
            if isinstance(layer, _BatchNorm) and layer.running_mean is not None
        }
        self.instances = {n: x for n, x in named.items() if isinstance(x, _InstanceNorm) and x.track_running_stats}
        self.resting: set[str] = set()
        for layer in self.layers.values():
            layer.track_running_stats = False  # no running averages: they would mix the rays
        given = {layer: layer.training for layer in module.modules()}
        if not given[module]:
            module.train()
        self.see_resting()
        if not given[module]:
            module.eval()
        for layer, training in given.items():
            layer.training = training

    @property
    def adaptive(self) -> list[str]:
        """The names of the BatchNorm layers that do not rest."""
        return [name for name in self.layers if name not in self.resting]

    @property
    def width(self) -> int:
        """Mean and variance of every feature of every layer."""
        return 2 * sum(layer.num_features for layer in self.layers.values())

    def see_resting(self) -> None:
        """Find the layers that rest, of a module in training."""
        layers = {**self.layers, **self.instances}
        self.rest({name for name, layer in layers.items() if not layer.training})

    def rest(self, names: Collection[str]) -> None:
        """Let these layers rest, and no others."""
        self.resting = set(names)
        for name, layer in self.instances.items():  # else an instance's own statistics, in evaluation too
            layer.track_running_stats = name in self.resting

    def use_batch(self) -> None:
        """Put the layers that do not rest into training mode."""
        for name in self.adaptive:
            self.layers[name].train()

    def unpack(self, statistics: Tensor) -> dict[str, Tensor]:
        """Cut ``statistics [width]`` into running averages by name, for the layers that do not rest."""
        sizes = [layer.num_features for layer in self.layers.values() for _ in range(2)]
        names = [(layer, f"{layer}.{part}") for layer in self.layers for part in ("running_mean", "running_var")]
        parts = zip(names, statistics.split(sizes))
        return {name.removeprefix("."): part for (layer, name), part in parts if layer not in self.resting}

    def measure(self, run: Callable[[], object], own: dict[str, Tensor], like: Tensor) -> Tensor:
        """Compute mean and variance ``[width]`` of every layer's input while ``run()`` calls the module.

        A layer that rests, or that only training uses, keeps its ``own``.
        """
        seen: dict[str, list[Tensor]] = {name: [] for name in self.layers}

        def record(name: str) -> Callable:
            def hook(layer: nn.Module, args: tuple[Tensor]) -> None:
                x = args[0].detach()
                variance, mean = torch.var_mean(x, [d for d in range(x.ndim) if d != 1], correction=0)
                count = torch.full_like(mean, x.numel() // x.shape[1])
                seen[name].append(torch.stack([count, mean, variance]))

            return hook

        hooks = [self.layers[name].register_forward_pre_hook(record(name)) for name in self.adaptive]
        try:
            run()
        finally:
            for handle in hooks:
                handle.remove()
        found: list[Tensor] = []
        for name in self.layers:
            kept = [own[f"{name}.{part}".removeprefix(".")] for part in ("running_mean", "running_var")]
            found += _pooled(torch.stack(seen[name])) if seen[name] else kept
        return torch.cat([tensor.to(like) for tensor in found])

    def finish(self, plain: nn.Module, mode: str) -> None:
        """Let the layers of a ``plain`` copy use their averages in evaluation, or in ``"batch"`` mode the batch."""
        for name in self.layers:
            layer = plain.get_submodule(name)
            layer.track_running_stats = mode == "grid" or name in self.resting  # pyrefly: ignore[bad-argument-type]
            if not layer.track_running_stats:
                layer.running_mean = layer.running_var = layer.num_batches_tracked = None  # pyrefly: ignore[bad-argument-type]


@contextmanager
def modes_kept(module: nn.Module, target: Target) -> Iterator[None]:
    """Restore the modes of all layers of ``module``, and of the ``target`` in it, after the ``with`` block."""
    if target.skeleton.training != target.training:  # some loops set the flag without a call of train()
        target.train(target.training)
    layers: Iterable[nn.Module] = [*module.modules(), *target.skeleton.modules()]
    modes, resting, mode = [(layer, layer.training) for layer in layers], target.normalization.resting, module.training
    try:
        yield
    finally:
        if module.training != mode:
            module.train(mode)  # which the target may override
        for layer, training in modes:
            layer.training = training
        target.normalization.rest(resting)


def _pooled(samples: Tensor) -> tuple[Tensor, Tensor]:
    """Compute mean and variance of all samples together, from count, mean and variance of each, ``[samples, 3,
    features]``."""
    count, means, variances = samples.double().unbind(1)
    total = count.sum(0)
    mean = (count * means).sum(0) / total
    spread = (count * (variances + (means - mean).square())).sum(0)
    return mean, spread / (total - 1).clamp_min(1)
