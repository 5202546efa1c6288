"""Checks of arguments against the types of a signature: :func:`checked`.

A type that only a type checker can decide counts as fitting. Values within a type (ranges, shapes) are checked by the
functions themselves.
"""

from __future__ import annotations

import builtins
import functools
import inspect
import itertools
import numbers
import types
import typing
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

import numpy as np
import torch
from torch import Tensor

from hyperfront.errors import HyperfrontError, shown, unknown_name

C = TypeVar("C", bound=Callable[..., Any])
Check = Callable[[Any], bool]
FIRST = 1000
"""The entries of a container that are checked."""


def checked(call: C) -> C:
    """Refuse arguments of other types than the annotations of a function, or of a class's ``__init__``.

    A number of NumPy is a number, and a bool is none; a list is good where a tuple is expected, and an array where a
    sequence is. A call that does not fit the signature stays a ``TypeError``.

    >>> @checked
    ... def half(number: float) -> float:
    ...     return number / 2
    >>> half("3")
    Traceback (most recent call last):
    hyperfront.errors.HyperfrontError: number of half is not understood
      got:      '3'
      expected: float
    """
    return checked_except()(call)


def checked_except(*names: str) -> Callable[[C], C]:
    """Make :func:`checked` leave out parameters that the function itself checks, with better words."""

    def check(call: C) -> C:
        if not inspect.isclass(call):
            return _checked(call, call.__name__, names)
        made: Any = call
        made.__init__ = _checked(made.__init__, made.__name__, names)
        return call

    return check


def _checked(call: Any, title: str, but: tuple[str, ...] = ()) -> Any:
    checks: list[tuple[str, Check, str]] = []

    @functools.wraps(call)
    def refusing(*args: Any, **kwargs: Any) -> Any:
        if not checks:
            checks.extend(_checks(call, but))
            by_name.update({name: (name, check, text) for name, check, text in checks})
        for value, (name, check, text) in zip(args, checks):
            if not check(value):
                raise _wrong(title, name, value, text)
        for key, value in kwargs.items():
            name, check, text = by_name.get(key, rest)
            if not check(value):
                raise _wrong(title, key, value, text)
        return call(*args, **kwargs)

    by_name: dict[str, tuple[str, Check, str]] = {}
    rest = ("", _anything, "")
    return refusing


def _checks(call: Callable[..., Any], but: tuple[str, ...]) -> list[tuple[str, Check, str]]:
    """Name, check and annotation of each parameter: first of positional ones, then of keywords."""
    found = []
    for parameter in inspect.signature(call).parameters.values():
        kind, text = parameter.annotation, str(parameter.annotation)
        known = (
            kind is not parameter.empty and parameter.kind is not parameter.VAR_KEYWORD and parameter.name not in but
        )
        check = check_of(_evaluated(kind, call.__globals__)) if known else _anything
        if parameter.kind is parameter.VAR_POSITIONAL:
            found += [(parameter.name, check, text)] * FIRST
        else:
            found.append((parameter.name, check, text))
    return found


class _Names(dict):
    """The names of a module; names that only type checkers import stand for any type."""

    def __missing__(self, name: str) -> Any:
        return getattr(builtins, name, Any)


def _evaluated(annotation: Any, names: dict[str, Any]) -> Any:
    try:
        return eval(annotation, {}, _Names(names)) if isinstance(annotation, str) else annotation
    except TypeError:  # an alias of special forms
        return Any


@functools.cache
def check_of(kind: Any) -> Check:
    """Return the check whether a value is of a type."""
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if origin in (typing.Union, types.UnionType):
        each = tuple(check_of(argument) for argument in arguments)
        return lambda value: any(check(value) for check in each)
    if origin is typing.Literal:
        return lambda value: isinstance(value, str) and value in arguments
    if kind is None or kind is types.NoneType:
        return lambda value: value is None
    plain = origin or kind
    if plain in _PLAIN:
        return _PLAIN[plain]
    if plain in (tuple, list, Sequence):
        return _sequence(plain, arguments)
    if plain in (dict, Mapping):
        return _mapping(arguments)
    if plain is Callable:
        return callable
    if not isinstance(plain, type) or plain is Any:
        return _anything
    if getattr(plain, "_is_protocol", False):
        methods = [name for name, value in vars(plain).items() if callable(value) and not name.startswith("_")]
        return lambda value: not isinstance(value, type) and all(hasattr(value, name) for name in methods)
    return lambda value: isinstance(value, plain)


def _anything(value: object) -> bool:
    return True


def _is_number(value: object) -> bool:
    return isinstance(value, numbers.Real) and not isinstance(value, bool | np.bool_)


def _is_whole(value: object) -> bool:
    return isinstance(value, numbers.Integral) and not isinstance(value, bool | np.bool_)


def is_plain(value: object) -> bool:
    """Whether a value is a tensor that holds real numbers one by one: not sparse, quantized, nested or without data."""
    return (
        isinstance(value, Tensor)
        and value.layout is torch.strided
        and not (value.is_meta or value.is_quantized or value.is_nested or value.is_complex())
    )


_PLAIN: dict[Any, Check] = {float: _is_number, int: _is_whole, Tensor: is_plain, object: _anything}


def _sequence(plain: Any, arguments: tuple[Any, ...]) -> Check:
    if plain is tuple and arguments and arguments[-1] is not Ellipsis:
        parts = tuple(check_of(argument) for argument in arguments)
        return lambda value: (
            isinstance(value, tuple | list)
            and len(value) == len(parts)
            and all(check(entry) for check, entry in zip(parts, value))
        )
    kinds: Any = {tuple: tuple | list, list: list}.get(
        plain, Sequence if arguments == (str,) else Sequence | np.ndarray
    )
    entry = check_of(arguments[0]) if arguments else _anything

    def is_sequence(value: Any) -> bool:
        if (
            not isinstance(value, kinds)
            or isinstance(value, str | bytes)
            or (isinstance(value, np.ndarray) and not value.ndim)
        ):
            return False
        return all(entry(each) for each in itertools.islice(value, FIRST))

    return is_sequence


def _mapping(arguments: tuple[Any, ...]) -> Check:
    key, entry = (check_of(argument) for argument in arguments or (Any, Any))
    return lambda value: (
        all(key(k) and entry(v) for k, v in itertools.islice(value.items(), FIRST))
        if isinstance(value, dict)
        else isinstance(value, Mapping)  # another mapping may load its values when it is asked
    )


def _wrong(title: str, name: str, value: object, annotation: str) -> HyperfrontError:
    """The error for an argument; for a misspelt choice it suggests the nearest one."""
    what = f"{name} of {title.strip('_')}"
    choices = [part.split("]")[0] for part in annotation.split("Literal[")[1:]]
    if choices and isinstance(value, str):
        return unknown_name(what, value, [choice.strip(" '\"") for part in choices for choice in part.split(",")])
    return HyperfrontError(f"{what} is not understood", got=shown(value), expected=annotation)
