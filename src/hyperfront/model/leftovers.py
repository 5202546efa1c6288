"""Leftovers: tensors that a call stores in plain attributes of a module, such as an auxiliary loss or attention map.

They are neither parameters nor buffers. PyTorch refuses to copy leftovers that autograd tracks, and leftovers from
inside vmap become unusable when it ends.
"""

from __future__ import annotations

import copy
from typing import Any

from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from hyperfront.errors import TargetError
from hyperfront.model.placeholders import Absent, is_wrapped
from hyperfront.storage.nests import things


def duplicate(thing: Any, memo: dict[int, Any] | None = None) -> Any:
    """Copy deeply, with leftovers detached. A leftover of vmap becomes None, since it belongs to no single ray."""
    with _CopiesLeftovers():
        return copy.deepcopy(thing, {} if memo is None else memo)


def private_copy(module: nn.Module) -> nn.Module:
    """Copy the module that a user passed, or raise an error that says why it cannot be copied."""
    try:
        return duplicate(module)
    except Exception as error:  # all that the things in it may raise
        raise TargetError(
            "the module cannot be copied, and its generated weights live in a copy",
            got=f"{type(error).__name__}: {error}",
            expected="attributes that copy.deepcopy can copy",
            fix="take locks, open files and the like out of the module, or write its __deepcopy__",
        ) from error


def settle(module: nn.Module) -> None:
    """Replace leftovers on a module by such copies, so that the module can be copied and pickled."""
    memo: dict[int, Any] = {}  # one memo for all layers, so that shared lists stay shared
    for layer in module.modules():
        for name, value in vars(layer).items():
            found = things(value)
            held = any(isinstance(thing, nn.Module | nn.Parameter | Absent) for thing in found)  # not ours to copy
            if any(map(is_leftover, found)) and not held:
                vars(layer)[name] = duplicate(value, memo)


def is_leftover(thing: Any) -> bool:
    """Whether a thing is a tensor that a call computed, with a graph or under vmap."""
    return isinstance(thing, Tensor) and (is_wrapped(thing) or not thing.is_leaf)


class _CopiesLeftovers(TorchFunctionMode):
    """Makes ``copy.deepcopy`` copy leftovers within the ``with`` block."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func is not Tensor.__deepcopy__ or not is_leftover(args[0]):
            return func(*args, **(kwargs or {}))
        tensor, memo = args
        memo[id(tensor)] = None if is_wrapped(tensor) else tensor.detach().clone()
        return memo[id(tensor)]
