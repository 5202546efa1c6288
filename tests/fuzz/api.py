"""Calls of public functions, constructors and methods with random arguments."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Callable
from random import Random
from typing import Any

import torch

from tests.fuzz import properties, signatures, specimens
from tests.fuzz.campaign import Outcome, attempt
from tests.fuzz.signatures import Target

HINTS: dict[str, tuple[Any, ...]] = {
    **dict.fromkeys(("n", "m", "count", "partitions", "variables", "steps", "parts", "groups"), (1, 2, 3, 4)),
    **dict.fromkeys(("minimize", "maximize", "name", "goal"), ("a", "b", "s", "x")),
    **dict.fromkeys(("reference",), ((9.0, 9.0), (2, 2), [1.0, 1.0], (1.0,))),
    **dict.fromkeys(("target",), ("y",)),
    **dict.fromkeys(("sensitive",), ("group", ("group",), "age")),
    "objectives": (("a", "b"), ["a", "b"], ("log_loss", "error"), ("a", "b", "c")),
    "losses": ({"a": specimens.square, "b": specimens.size},),
    "rays": ([[0.5, 0.5]], [0.2, 0.8], torch.tensor([[0.5, 0.5], [0.1, 0.9]]), 3),
    "ray": ([0.5, 0.5], (0.2, 0.8)),
    "smallest_group": (5, 1),
    "bounds": ((0, 1), (0.0, 2.0), None),
}
"""Values for parameters of these names. A name without values gets values of its type."""
SLOW = {"hyperfront.export.pt2", "hyperfront.export.onnx", "hyperfront.export.graph", "hyperfront.Front.plot"}
"""Calls of a second: one in a thousand of the others' number."""
HEAVY = (
    *("hyperfront.align", "hyperfront.check", "hyperfront.export", "hyperfront.wrap", "hyperfront.tabular.problem"),
    *("hyperfront.Step.__call__", "hyperfront.Front.select", "hyperfront.Problem.model"),
)
"""Calls of several milliseconds: a tenth of the others' number."""


class Calls:
    """The family of calls without training."""

    name, seconds, batch = "api", 60.0, 4000

    def __init__(self, only: str = ""):
        self.only = only

    def prepare(self) -> None:
        torch.set_num_threads(1)
        warnings.simplefilter("ignore")
        self.shared = specimens.Shared()
        self.pool = specimens.pool(self.shared)
        self.targets = [target for target in signatures.targets() if self.only in target.name]
        self.weights = [_weight(target.name) for target in self.targets]
        self.fitting: dict[Any, list[Any]] = {}

    def run(self, number: int) -> Outcome:
        draw = Random(number)
        target = draw.choices(self.targets, self.weights)[0]
        own = () if target.owner is None else (self.instance(draw, target.owner),)
        if own == (None,):
            return Outcome(target.name, "no instance")
        call, args, kwargs = self.arguments(draw, draw.choice((0.0, 0.15, 0.15, 0.4, 1.0)), target, *own)
        return attempt(target.name, lambda: properties.check(target, call(*args, **kwargs), kwargs))

    def arguments(
        self, draw: Random, oddness: float, target: Target, *own: Any
    ) -> tuple[Callable[..., Any], list[Any], dict[str, Any]]:
        """Draw a call that fits the signature; ``oddness`` is the share of arguments that may be anything."""
        args, kwargs = list(own), {}
        for parameter, kind in signatures.parameters(target.call)[len(own) :]:
            if parameter.kind is parameter.VAR_KEYWORD:
                continue
            if parameter.kind is parameter.VAR_POSITIONAL:
                args += [self.value(draw, parameter.name, kind, oddness) for _ in range(draw.randrange(4))]
            elif parameter.default is parameter.empty or draw.random() < 0.5:
                kwargs[parameter.name] = self.value(draw, parameter.name, kind, oddness)
        positional = [p.name for p, _ in signatures.parameters(target.call) if p.kind is p.POSITIONAL_ONLY]
        args += [kwargs.pop(name) for name in positional if name in kwargs]
        return target.call, args, kwargs

    def value(self, draw: Random, name: str, kind: Any, oddness: float) -> Any:
        if draw.random() < oddness:
            return self.odd(draw)
        if name in HINTS and draw.random() < 0.6:
            return _copied(draw.choice(HINTS[name]))
        choices = self.of_kind(kind)
        return _made(draw, draw.choice(choices)) if choices else self.odd(draw)

    def of_kind(self, kind: Any) -> list[Any]:
        """Values and makers of values that are of the type."""
        key = str(kind)
        if key not in self.fitting:
            flat = [*specimens.NUMBERS, *specimens.TEXTS, *specimens.PATHS, True, False, None]
            flat += [*specimens.LISTS[:8], *specimens.MAPPINGS[:4], *self.pool["objects"], *self.pool["functions"]]
            flat += list(_choices(kind)) * 8
            found = [Value(value) for value in flat if signatures.fits(value, kind)]
            for make in (specimens.tensor, specimens.array, specimens.frame, specimens.table):
                if signatures.fits(make(Random(0)), kind):
                    found += [make] * max(3, len(found) // 2)
            self.fitting[key] = found
        return self.fitting[key]

    def odd(self, draw: Random) -> Any:
        """Draw any value, with those that nobody should pass."""
        flat = (
            *(specimens.tensor, specimens.tensor, specimens.odd_tensor, specimens.array, specimens.frame),
            *(specimens.nested, specimens.containers),
            *(specimens.NUMBERS, specimens.ODD_NUMBERS, specimens.ODD_NUMBERS, specimens.TEXTS, specimens.ODD_TEXTS),
            *(specimens.LISTS, specimens.MAPPINGS, specimens.PATHS, (None,)),
            *(self.pool["objects"], self.pool["functions"], self.pool["odd"]),
        )
        found = draw.choice(flat)
        return found(draw) if callable(found) else _copied(draw.choice(found))

    def instance(self, draw: Random, owner: type) -> Any:
        """An instance of the class: an object of the pool, or the result of a random call of the constructor."""
        known = [value for value in self.pool["objects"] if isinstance(value, owner)]
        if known and draw.random() < 0.8:
            return draw.choice(known)
        for _ in range(20):
            call, args, kwargs = self.arguments(draw, draw.choice((0.0, 0.0, 0.15)), Target("", owner))
            try:
                return call(*args, **kwargs)
            except Exception:
                continue
        return draw.choice(known) if known else None


class Value:
    """A value among makers of values."""

    def __init__(self, value: Any):
        self.value = value


def _copied(value: Any) -> Any:
    """A copy of a container, so that no call changes the pool."""
    return copy.copy(value) if isinstance(value, list | dict | set) else value


def _made(draw: Random, choice: Any) -> Any:
    return choice.value if isinstance(choice, Value) else choice(draw)


def _choices(kind: Any) -> tuple[Any, ...]:
    """The texts of all ``Literal`` in a type."""
    import typing

    if typing.get_origin(kind) is typing.Literal:
        return typing.get_args(kind)
    return tuple(choice for part in typing.get_args(kind) for choice in _choices(part))


def _weight(name: str) -> float:
    return 1e-3 if name in SLOW else 0.1 if name.startswith(HEAVY) else 1.0
