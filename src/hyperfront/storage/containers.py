"""Containers of tensors: take the parts out of a container, and rebuild it with other parts.

optree knows tuples, lists, dicts and named tuples. This module adds other types that libraries use for batches and
outputs: mappings (``BatchEncoding``, ``ModelOutput``), dataclasses, subclasses of lists and tuples, and every type that
is registered with PyTorch's pytrees. Register your own type with
``optree.register_pytree_node(Type, flatten, unflatten, namespace="hyperfront")``.
"""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Callable, Mapping, MutableMapping
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import PackedSequence
from torch.utils import _pytree as torch_pytree

from hyperfront.errors import HyperfrontError

PLAIN = (bool, int, float, complex, str, bytes, torch.dtype, torch.device, torch.Size, type(None))
"""Types of values that apply to all rows of a batch."""


class Opened(NamedTuple):
    """The parts of a container by key or field, and a function that rebuilds the container from such parts."""

    parts: dict[Any, Any]
    close: Callable[[dict[Any, Any]], Any]


def opened(thing: Any) -> Opened | None:
    """Open a container that optree does not know; return None if ``thing`` is no container.

    >>> import collections
    >>> opened(collections.UserDict(x=1)).close({"x": 2})
    {'x': 2}
    """
    if isinstance(thing, (Tensor, *PLAIN)):
        return None
    if type(thing) in torch_pytree.SUPPORTED_NODES:
        return _registered(thing)
    if isinstance(thing, Mapping):
        return Opened(dict(thing), lambda parts: _mapping(thing, parts))
    if isinstance(thing, list):
        return Opened(dict(enumerate(thing)), lambda parts: _list(thing, parts))
    if isinstance(thing, tuple):
        return Opened(dict(enumerate(thing)), lambda parts: _made(thing, list(parts.values())))
    if dataclasses.is_dataclass(thing) and not isinstance(thing, type | nn.Module):
        fields = {field.name: getattr(thing, field.name) for field in dataclasses.fields(thing)}
        return Opened(fields, lambda parts: _dataclass(thing, parts))
    return None


def moves_itself(thing: Any) -> bool:
    """Whether an object has its own ``to(device)`` and is no nest of tensors, such as a library's graph. A packed
    sequence counts too: its parts belong on different devices, which only its own method knows."""
    known = isinstance(thing, Tensor | nn.Module | type)
    return not known and callable(getattr(thing, "to", None)) and (is_packed(thing) or opened(thing) is None)


def is_packed(thing: Any) -> bool:
    return isinstance(thing, PackedSequence)


def how_to_register(kind: str) -> str:
    """Return the line of code that registers a type."""
    return f"optree.register_pytree_node({kind}, flatten, unflatten, namespace='hyperfront')"


def _registered(thing: Any) -> Opened:
    node = torch_pytree.SUPPORTED_NODES[type(thing)]
    values, context = node.flatten_fn(thing)
    keys: Any = thing if isinstance(thing, Mapping) and len(thing) == len(values) else range(len(values))
    return Opened(dict(zip(keys, values)), lambda parts: node.unflatten_fn(list(parts.values()), context))


def _mapping(thing: Any, parts: dict[Any, Any]) -> Any:
    if not isinstance(thing, MutableMapping):
        return _made(thing, parts)
    made = copy.copy(thing)
    for key, value in parts.items():
        made[key] = value
    return made


def _list(thing: list[Any], parts: dict[Any, Any]) -> list[Any]:
    made = copy.copy(thing)
    made[:] = list(parts.values())
    return made


def _dataclass(thing: Any, parts: dict[Any, Any]) -> Any:
    made = copy.copy(thing)
    for name, value in parts.items():
        object.__setattr__(made, name, value)  # frozen ones too
    return made


def _made(thing: Any, parts: Any) -> Any:
    try:
        return type(thing)(parts)
    except TypeError as error:
        kind = type(thing).__name__
        raise HyperfrontError(
            f"a {kind} cannot be rebuilt with other tensors", got=error, fix=how_to_register(kind)
        ) from None
