"""Recomputation: keep the inputs of a module's blocks, and run each block again in the backward pass (checkpointing).

Blocks are repeated children of a ``ModuleList`` or ``Sequential``, such as the layers of a transformer. A module
without such children is one block. Memory then holds the inputs of all blocks and the activations of one, for one more
forward pass in every backward pass (Chen et al., 2016, "Training deep nets with sublinear memory cost").

A block that runs again starts from the same state: buffers, attributes, and the states of random generators. The
changes of the second run are dropped, so that dropout repeats, and averages and counters move once.
"""

from __future__ import annotations

import copy
from collections import Counter, deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _NormBase
from torch.utils.checkpoint import checkpoint

from hyperfront.errors import TargetError
from hyperfront.model.target import Target
from hyperfront.training.randomness import Randomness

_REGISTERED = ("_parameters", "_buffers", "_modules", "forward")
_CONTAINERS = (list, dict, set, deque)


def blocks(module: nn.Module) -> list[nn.Module]:
    """Find the blocks of a module: children of lists that have at least two of a kind, each with layers of its own.

    >>> blocks(nn.Sequential(nn.Linear(2, 2), *(nn.Sequential(nn.Linear(2, 2), nn.Tanh()) for _ in range(3))))[0]
    Sequential(
      (0): Linear(in_features=2, out_features=2, bias=True)
      (1): Tanh()
    )
    """
    return list(dict.fromkeys(_repeated(module))) or [module]


def _repeated(module: nn.Module) -> Iterator[nn.Module]:
    children = list(module.children())
    if isinstance(module, nn.ModuleList | nn.Sequential):
        kinds = Counter(type(child) for child in children if any(True for _ in child.children()))
        if found := [child for child in children if kinds[type(child)] > 1]:
            yield from found
            return
    for child in children:
        yield from _repeated(child)


@contextmanager
def recomputing(target: Target, device: torch.device) -> Iterator[None]:
    """Let the networks of training steps keep no activations of their blocks within the ``with`` block."""
    found = blocks(target.skeleton)
    if compiled := [layer for layer in found if isinstance(layer, torch.jit.ScriptModule)]:
        raise TargetError(
            "a torch.jit module cannot be run block by block", got=compiled[0].original_name, fix="the Python module"
        )
    if target.stacking.mode == "vmap":
        raise TargetError(
            "networks whose activations are recomputed run one ray at a time",
            got='checkpoint_activations=True with batching="vmap"',
            fix='batching="auto", the default, in hyperfront.wrap',
        )
    target.around = lambda: _calls(found, device)
    try:
        yield
    finally:
        target.around = None


@contextmanager
def _calls(found: list[nn.Module], device: torch.device) -> Iterator[None]:
    """Let the blocks forget their activations in a call of the module. The backward pass needs no such change."""
    before = [vars(block).get("forward") for block in found]
    for block in found:
        vars(block)["forward"] = _forgetting(block, block.forward, device)
    try:
        yield
    finally:
        for block, own in zip(found, before):
            del vars(block)["forward"]
            if own is not None:
                vars(block)["forward"] = own


def _forgetting(block: nn.Module, forward: Callable[..., Any], device: torch.device) -> Callable[..., Any]:
    """Return ``forward`` with its activations recomputed in the backward pass."""

    def call(*args: Any, **kwargs: Any) -> Any:
        state = _State(block, device)
        first = True

        def run(*args: Any, **kwargs: Any) -> Any:
            nonlocal first
            if first:
                first = False
                output = forward(*args, **kwargs)
                state.drop_unchanged()
                return output
            with state.again():
                return forward(*args, **kwargs)

        return checkpoint(run, *args, use_reentrant=False, preserve_rng_state=False, **kwargs)

    return call


class _State:
    """The state before a call of a block: buffers, attributes and the states of random generators."""

    def __init__(self, block: nn.Module, device: torch.device):
        self.layers = list(block.modules())
        self.randomness = Randomness(device, block)
        self.random = self.randomness.states()
        self.buffers = [(layer._buffers, dict(layer._buffers), _copies(layer._buffers)) for layer in self.layers]
        self.attributes = [_attributes(layer) for layer in self.layers]

    def drop_unchanged(self) -> None:
        """Forget copies of buffers that the call has left as they were. Normalization does not say that it writes."""
        for layer, (now, before, copies) in zip(self.layers, self.buffers):
            for name, (_, version) in [] if isinstance(layer, _NormBase) else list(copies.items()):
                if (tensor := now[name]) is not None and tensor is before[name] and tensor._version == version:
                    del copies[name]

    @contextmanager
    def again(self) -> Iterator[None]:
        """Give the block the same state within the ``with`` block, and then the present one."""
        random, buffers = self.randomness.states(), [dict(store) for store, *_ in self.buffers]
        attributes = [dict(vars(layer)) for layer in self.layers]
        self.randomness.load(self.random)
        for layer, own in zip(self.layers, self.attributes):
            _restore(layer, {name: _copied(value) for name, value in own.items()})
        for store, _, copies in self.buffers:
            store.update({name: tensor.clone() for name, (tensor, _) in copies.items()})
        try:
            yield
        finally:
            self.randomness.load(random)
            for (store, *_), own in zip(self.buffers, buffers):
                store.update(own)
            for layer, own in zip(self.layers, attributes):
                _restore(layer, own)


def _copies(buffers: dict[str, Tensor | None]) -> dict[str, tuple[Tensor, int]]:
    return {name: (t.detach().clone(), t._version) for name, t in buffers.items() if t is not None}


def _attributes(layer: nn.Module) -> dict[str, Any]:
    return {name: _copied(value) for name, value in vars(layer).items() if name not in _REGISTERED}


def _copied(value: Any) -> Any:
    """Copy a container, to which a call may add, but not what it holds."""
    return copy.copy(value) if type(value) in _CONTAINERS else value


def _restore(layer: nn.Module, own: dict[str, Any]) -> None:
    for name in [name for name in vars(layer) if name not in own and name not in _REGISTERED]:
        del vars(layer)[name]
    vars(layer).update({name: value for name, value in own.items() if name not in _REGISTERED})
