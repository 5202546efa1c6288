"""What calls leave behind on a module: tensors in plain attributes, such as an auxiliary loss or an attention map.

They are in no table of parameters or buffers. PyTorch refuses to copy those that autograd tracks, and those that were
made under vmap are dead once it ends.
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
    """A deep copy, with what calls left behind detached, or None where vmap left it: that is of no single ray."""
    with _CopiesLeftovers():
        return copy.deepcopy(thing, {} if memo is None else memo)


def settle(module: nn.Module) -> None:
    """Replace what calls left behind on a module by such copies, so that it can be copied and pickled."""
    memo: dict[int, Any] = {}  # one for all, so that lists which layers share stay shared
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
    """Inside, ``copy.deepcopy`` takes every tensor, wherever it hangs."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func is not Tensor.__deepcopy__ or not _is_leftover(args[0]):
            return func(*args, **(kwargs or {}))
        tensor, memo = args
        memo[id(tensor)] = None if _is_dead(tensor) else tensor.detach().clone()
        return memo[id(tensor)]
