"""The public functions, classes and methods, found by ``__all__``, and the types of their parameters."""

from __future__ import annotations

import inspect
import types
import typing
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from functools import cache
from importlib import import_module
from typing import Any, Literal

import numpy as np
from torch import Tensor

PACKAGE = "hyperfront"
MODULES = (
    "",
    ".solvers",
    ".preferences",
    ".indicators",
    ".front",
    ".problem",
    ".tabular",
    ".sklearn",
    ".export",
    ".model",
)
ELSEWHERE = {
    "hyperfront.fit": "a family of its own",
    "hyperfront.distill": "it trains",
    "hyperfront.explore": "the family of routes",
    "hyperfront.sklearn.ParetoClassifier.fit": "it trains",
    "hyperfront.sklearn.ParetoRegressor.fit": "it trains",
}
"""What the calls without training leave out, and why."""
CONTRACT = {
    "hyperfront.problem.losses.Measure": "statistics value merge __call__ counted means differences",
    "hyperfront.solvers.base.Solver": "floored value",
    "hyperfront.training.step.Step": "solve remember shared solved finished grouped",
    "hyperfront.solvers.chain.Stateful": "load",
    "hyperfront.problem.Problem": "losses each_loss divided",
}
"""Methods that only the package calls, with values of its own, by the class that states the contract."""


@dataclass(frozen=True)
class Target:
    """A public function, class or method."""

    name: str
    call: Callable[..., Any]
    owner: type | None = None
    """The class of a method; its first argument is an instance."""


@cache
def targets() -> tuple[Target, ...]:
    """All public functions, constructors and methods, each once."""
    found: dict[Any, Target] = {}
    for place in MODULES:
        module = import_module(PACKAGE + place)
        for name in getattr(module, "__all__", None) or _defined(module):
            for target in _targets_of(f"{PACKAGE}{place}.{name}", getattr(module, name)):
                if target.name not in ELSEWHERE:
                    found.setdefault((target.call, target.owner), target)
    return tuple(found.values())


def _defined(module: types.ModuleType) -> list[str]:
    return [
        n for n, v in vars(module).items() if inspect.isfunction(v) and v.__module__ == module.__name__ and n[0] != "_"
    ]


def _targets_of(name: str, value: Any) -> Iterable[Target]:
    if not inspect.isclass(value):
        if inspect.isfunction(value):
            yield Target(name, value)
        return
    if issubclass(value, Exception | Enum) or getattr(value, "_is_protocol", False):
        return
    if not inspect.isabstract(value):
        yield Target(name, value)
        yield from _methods(name, value)


def _methods(name: str, owner: type) -> Iterable[Target]:
    """Public methods and calls that the package defines for the class."""
    seen = set()
    for base in owner.__mro__:
        if not base.__module__.startswith(PACKAGE):
            continue
        for key, value in vars(base).items():
            if key in seen or (key.startswith("_") and key != "__call__"):
                continue
            seen.add(key)
            if isinstance(value, classmethod | staticmethod):
                yield Target(f"{name}.{key}", getattr(owner, key))
            elif inspect.isfunction(value) and not _by_contract(owner, key):
                yield Target(f"{name}.{key}", value, owner)


def _by_contract(owner: type, method: str) -> bool:
    """Whether only the package calls the method."""
    for place, methods in CONTRACT.items():
        module, _, name = place.rpartition(".")
        base = getattr(import_module(module), name)
        if method in methods.split() and (
            issubclass(owner, base) if not getattr(base, "_is_protocol", False) else hasattr(owner, "state")
        ):
            return True
    return False


@cache
def parameters(call: Callable[..., Any]) -> tuple[tuple[inspect.Parameter, Any], ...]:
    """The parameters of a call and their types; ``Any`` where a type cannot be found."""
    return tuple((parameter, _type(call, parameter)) for parameter in inspect.signature(call).parameters.values())


def _type(call: Callable[..., Any], parameter: inspect.Parameter) -> Any:
    annotation = parameter.annotation
    if annotation is inspect.Parameter.empty:
        return Any
    if not isinstance(annotation, str):
        return annotation
    code = inspect.unwrap(call.__init__ if inspect.isclass(call) else call)
    try:
        return eval(annotation, {**vars(typing), **getattr(code, "__globals__", {})})
    except Exception:
        return Any


def alternatives(kind: Any) -> set[Any]:
    """The types of a union, or the single type."""
    if typing.get_origin(kind) in (typing.Union, types.UnionType):
        return {part for each in typing.get_args(kind) for part in alternatives(each)}
    return {kind}


def fits(value: object, kind: Any) -> bool:
    """Whether a value may be of a type, roughly: it chooses values that are likely to be right."""
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if kind is Any or kind is object or isinstance(kind, typing.TypeVar | str):
        return True
    if origin in (typing.Union, types.UnionType):
        return any(fits(value, each) for each in arguments)
    if origin is Literal:
        return isinstance(value, str) and value in arguments
    if kind in (float, int):
        return isinstance(value, int | float) and not isinstance(value, bool)
    kind = origin or kind
    if kind in (Sequence, Iterable, tuple, list):
        return isinstance(value, list | tuple | Tensor | np.ndarray)
    if kind is Mapping:
        return isinstance(value, Mapping)
    if kind is Callable:
        return callable(value)
    try:
        return isinstance(value, kind)
    except TypeError:
        return True
