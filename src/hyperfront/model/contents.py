"""Contents: find the tensors that a module holds in plain attributes, containers, other objects and functions."""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterable, Iterator
from functools import partial
from types import CellType, FunctionType, MethodType, ModuleType
from typing import Any, NamedTuple
from weakref import ref

import torch
from torch import Tensor, nn

_ATOMS = (str, bytes, int, float, complex, type(None), type, ModuleType, torch.dtype, torch.device, torch.Generator)
_REGISTERED = {"_parameters", "_buffers", "_modules"}
_FOR_FILES = {"_state_dict_hooks", "_state_dict_pre_hooks", "_load_state_dict_pre_hooks", "_load_state_dict_post_hooks"}
_RECURRENT = {"_flat_weights", "_flat_weight_refs"}  # rebuilt from the layer's own parameters
_EMPTY = CellType()  # a variable of a closure that has no value yet


class Fields:
    """The attributes of an object, as a container whose copy belongs to the copy of the object."""

    def __init__(self, owner: Any):
        self.owner = owner

    def __getitem__(self, key: str) -> Any:
        return vars(self.owner)[key]

    def __setitem__(self, key: str, value: Any) -> None:
        vars(self.owner)[key] = value


class Found(NamedTuple):
    """Something in a module, and the way to it."""

    thing: Any
    layer: nn.Module
    """The registered layer that has it."""
    name: str
    """The layer's name, empty for the module itself."""
    attribute: str
    """The attribute of the layer that leads to it."""
    path: str
    """The whole way: attributes and keys."""
    container: Any
    key: Any
    """Where another thing can take its place, or the place of the tuple or set that it is in."""
    fixed: str = ""
    """The kind of the tuple, set or other thing around it in which nothing can be replaced."""
    foreign: str = ""
    """The kind of the function or reference on the way; a copy of the module shares it with the original."""
    owner: str = ""
    """The type of the layer on the way that is not registered."""

    @property
    def place(self) -> str:
        """The path and the layer, for messages."""
        kind = type(self.layer).__name__
        return f"{self.path} of {self.name} ({kind})" if self.name else f"{self.path} of {kind}"


def held(module: nn.Module, only: Collection[tuple[str, str]] | None = None) -> Iterator[Found]:
    """Yield every tensor that the layers of ``module`` hold without having registered it, once for each place.

    ``only`` restricts the search to these layers and attributes.
    """
    seen: dict[int, Any] = {id(layer): layer for layer in module.modules()}  # things, so that no number is used twice
    for name, layer in module.named_modules():
        skipped = _REGISTERED | _FOR_FILES | (_RECURRENT if isinstance(layer, nn.RNNBase) else set())
        skipped |= getattr(type(layer), "looked_after", set())  # of a model of ours
        ahead, own = deque[Found](), Fields(layer)
        for key, value in vars(layer).items():
            if key not in skipped and (only is None or (name, key) in only):
                ahead.append(Found(value, layer, name, key, key, own, key))
        while ahead:
            found = ahead.popleft()
            if isinstance(found.thing, Tensor):
                yield found
            elif not isinstance(found.thing, _ATOMS) and id(found.thing) not in seen:
                seen[id(found.thing)] = found.thing
                ahead.extend(_inside(found))


def recomputed(layer: nn.Module) -> set[str]:
    """Return the attributes that hooks of a layer compute before every call: older norms of weights, pruning."""
    hooks = layer._forward_pre_hooks.values()
    return {getattr(hook, "name", getattr(hook, "_tensor_name", "")) for hook in hooks}


def _inside(found: Found) -> Iterator[Found]:
    """Yield the parts of a container, function or other object."""
    thing, path = found.thing, found.path
    if isinstance(thing, dict):
        yield from _entries(found, thing, thing.items())
    elif isinstance(thing, list | deque):
        yield from _entries(found, thing, enumerate(thing))
    elif isinstance(thing, FunctionType):
        for name, value in _captured(thing):
            yield found._replace(thing=value, path=f"{path}({name})", foreign="a function")
    elif isinstance(thing, ref):
        yield found._replace(thing=thing(), foreign="a weak reference")
    elif (parts := _fixed_parts(thing)) is not None:
        for value in parts:
            yield found._replace(thing=value, path=f"{path}[...]", fixed=f"a {type(thing).__name__}")
    else:
        yield from _in_object(found)


def _entries(found: Found, container: Any, items: Iterable[tuple[Any, Any]]) -> Iterator[Found]:
    for key, value in list(items):
        yield found._replace(thing=value, path=f"{found.path}[{key!r}]", container=container, key=key, fixed="")


def _fixed_parts(thing: Any) -> tuple | None:
    """Return the parts of a thing in which nothing can be replaced; None for other things."""
    if isinstance(thing, tuple | set | frozenset):
        return tuple(thing)
    if isinstance(thing, partial):
        return thing.func, *thing.args, *thing.keywords.values()
    return (thing.__self__, thing.__func__) if isinstance(thing, MethodType) else None


def _in_object(found: Found) -> Iterator[Found]:
    """Yield the attributes of an object, and the tensors and layers that an unregistered layer has registered."""
    thing, kind = found.thing, type(found.thing).__name__
    is_layer = isinstance(thing, nn.Module)
    found = found._replace(owner=kind if is_layer else found.owner, fixed="")
    fields = list(_attributes(thing).items())
    stores = [(Fields(thing), [(key, value) for key, value in fields if not (is_layer and key in _REGISTERED)])]
    stores += [(store, list(store.items())) for key, store in fields if is_layer and key in _REGISTERED]
    for container, items in stores:
        for key, value in items:
            yield found._replace(thing=value, path=f"{found.path}.{key}", container=container, key=key)
    for name in _slots(type(thing)):
        value = getattr(thing, name, None)
        yield found._replace(thing=value, path=f"{found.path}.{name}", fixed=f"a {kind} with __slots__")


def _captured(function: FunctionType) -> Iterator[tuple[str, Any]]:
    """Yield the values that a function was made with: variables of its closure, and defaults."""
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or ()):
        if cell != _EMPTY:
            yield name, cell.cell_contents
    yield from (("default", value) for value in function.__defaults__ or ())
    yield from (function.__kwdefaults__ or {}).items()


def _attributes(thing: Any) -> dict[str, Any]:
    try:
        return vars(thing)
    except TypeError:
        return {}


def _slots(kind: type) -> list[str]:
    declared = [vars(each).get("__slots__", ()) for each in kind.__mro__]
    names = [name for each in declared for name in ([each] if isinstance(each, str) else each)]
    return [name for name in names if name not in ("__dict__", "__weakref__")]
