"""Placeholders: tensors without values, in places where values would be wrong. Computing with one is an error."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Self

import torch
from torch import Tensor

from hyperfront.errors import TargetError

_IS_LEAF = Tensor.is_leaf.__get__  # pyrefly: ignore[missing-attribute]
_METADATA = {"__get__", "__len__", "size", "dim", "numel", "is_floating_point", "is_complex", "type"}


class RaysApartError(TargetError):
    """Raised for rays that went together and should not have, so that the loop would take over too late."""


class Placeholder(Tensor):
    """Abstract: a tensor with shape and type but without values."""

    @classmethod
    def made(cls, shape: tuple[int, ...], dtype: torch.dtype, requires_grad: bool) -> Self:
        return cls._make_subclass(cls, torch.empty(shape, dtype=dtype, device="meta"), requires_grad)

    @classmethod
    def __torch_function__(cls, func: Callable, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if cls.may(func):
            return super().__torch_function__(func, types, args, kwargs or {})
        raise cls.fault(func.__name__)

    @classmethod
    def may(cls, function: Callable) -> bool:
        """Return whether ``function`` may be called with a placeholder."""
        return function.__name__ in _METADATA

    @classmethod
    def fault(cls, function: str) -> TargetError:
        """Return the error for the name of a function that computes with a placeholder."""
        raise NotImplementedError


class Absent(Placeholder):
    """The placeholder of a generated tensor between calls."""

    @classmethod
    def like(cls, tensor: Tensor) -> Absent:
        return cls.made(tuple(tensor.shape), tensor.dtype, tensor.requires_grad)

    @classmethod
    def fault(cls, function: str) -> TargetError:
        return TargetError(
            "the module was called outside of its network, where its generated tensors have no values",
            got=f"torch function {function!r}",
            expected="calls through model(x, rays), or losses(network) in hyperfront.backward",
            fix="if the module recomputes activations in the backward pass (torch.utils.checkpoint), take gradients "
            "with hyperfront.backward or hyperfront.fit, or switch the recomputation off",
        )

    def __deepcopy__(self, memo: Any) -> Absent:
        return self

    def __reduce_ex__(self, proto: Any) -> tuple:
        return Absent.made, (tuple(self.shape), self.dtype, self.requires_grad)


class Lost(Placeholder):
    """The placeholder of an activation that a call of several rays together left in an attribute. Copies are None."""

    @classmethod
    def fault(cls, function: str) -> TargetError:
        return RaysApartError(
            "the module reads what an earlier call left in an attribute, and the rays of that call ran together",
            got=f"torch function {function!r}",
            fix='batching="loop": each call then sees the attributes of the call before',
        )

    @classmethod
    def may(cls, function: Callable) -> bool:
        return function == _IS_LEAF  # which finds leftovers of calls

    @classmethod
    def of_no_ray(cls) -> Lost:
        return cls.made((), torch.float32, requires_grad=False)

    def __deepcopy__(self, memo: Any) -> None:
        return None

    def __reduce_ex__(self, proto: Any) -> tuple:
        return type(None), ()


def is_wrapped(tensor: Tensor) -> bool:
    """Whether a tensor belongs to a call under vmap or another transformation; after that call it is dead."""
    return torch._C._functorch.is_functorch_wrapped_tensor(tensor)


def unwrapped(tensor: Tensor) -> Tensor:
    """Return the tensor of all rays behind the tensor that vmap passes for one ray."""
    while is_wrapped(tensor):
        tensor = torch._C._functorch.get_unwrapped(tensor)
    return tensor
