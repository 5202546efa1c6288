"""Leftovers: tensors that a call stores in plain attributes of a module, such as an auxiliary loss or attention map.

They are neither parameters nor buffers. PyTorch refuses to copy leftovers that autograd tracks, and leftovers from
inside vmap become unusable when it ends.
"""

from __future__ import annotations

import copy
from typing import Any

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from hyperfront.model.substitution import Absent
from hyperfront.storage.nests import things


def duplicate(thing: Any, memo: dict[int, Any] | None = None) -> Any:
    """Copy deeply, with leftovers detached. A leftover of vmap becomes None, since it belongs to no single ray."""
    with _CopiesLeftovers():
        return copy.deepcopy(thing, {} if memo is None else memo)


def settle(module: nn.Module) -> None:
    """Replace leftovers on a module by such copies, so that the module can be copied and pickled."""
    memo: dict[int, Any] = {}  # one memo for all layers, so that shared lists stay shared
    for layer in module.modules():
        for name, value in vars(layer).items():
            found = things(value)
            held = any(isinstance(thing, nn.Module | nn.Parameter | Absent) for thing in found)  # not ours to copy
            if any(map(_is_leftover, found)) and not held:
                vars(layer)[name] = duplicate(value, memo)


def _is_leftover(thing: Any) -> bool:
    return isinstance(thing, Tensor) and (_is_dead(thing) or not thing.is_leaf)


def _is_dead(tensor: Tensor) -> bool:
    return torch._C._functorch.is_functorch_wrapped_tensor(tensor)


class _CopiesLeftovers(TorchFunctionMode):
    """Makes ``copy.deepcopy`` copy leftovers within the ``with`` block."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func is not Tensor.__deepcopy__ or not _is_leftover(args[0]):
            return func(*args, **(kwargs or {}))
        tensor, memo = args
        memo[id(tensor)] = None if _is_dead(tensor) else tensor.detach().clone()
        return memo[id(tensor)]
