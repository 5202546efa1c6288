"""Built-in problems by name, each with the settings that train it well.

The zoo fills this table. When a name is not in the table, the zoo is imported by its own name. So
``hyperfront.load("runs/adult")`` works, while the core imports no data set, network or recipe.
"""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hyperfront.errors import HyperfrontError, unknown_name
from hyperfront.problem.problem import Problem
from hyperfront.problem.recipe import Recipe

ZOO = "hyperfront.zoo"
_entries: dict[str, Entry] = {}


@dataclass(frozen=True)
class Notes:
    """Notes of a model card on the data of a built-in problem."""

    sources: tuple[str, ...]
    """A line with title and licence for each data set."""
    inputs: str
    limits: tuple[str, ...]
    flaws: Mapping[tuple[str, Any], str]
    """Limitations that apply to one value of an argument, by argument and value."""

    def all_limits(self, arguments: Mapping[str, Any]) -> list[str]:
        return [*self.limits, *(text for (name, value), text in self.flaws.items() if arguments.get(name) == value)]


@dataclass(frozen=True)
class Entry:
    """A built-in problem: a function that makes it, and its presets by name. The first preset is the default.

    Problems with data have these: ``quick`` (minutes on two cores), ``smoke`` (seconds, to see that it runs), ``paper``
    (the settings of the paper's appendix A) and ``best`` (our settings).
    """

    make: Callable[..., Problem]
    summary: str
    presets: Mapping[str, Recipe]
    arguments: str = ""
    """The arguments of ``make`` with their possible values, the default first."""
    notes: Notes | None = None
    """None for a problem without data."""


def register(entries: Mapping[str, Entry]) -> None:
    """Add problems to the table."""
    _entries.update(entries)


def problems() -> Mapping[str, Entry]:
    """All built-in problems by name."""
    importlib.import_module(ZOO)
    return _entries


def is_builtin(name: Any) -> bool:
    """Whether a built-in problem has this name."""
    return isinstance(name, str) and (name in _entries or name in problems())


def entry(name: str) -> Entry:
    """Find the built-in problem of that name, or raise an error that suggests the nearest name."""
    if not is_builtin(name):
        raise unknown_name("problem", name, problems())
    return _entries[name]


def recipe(name: str, preset: str | None = None) -> Recipe:
    """Return a preset of a built-in problem; by default its first."""
    presets = entry(name).presets
    if preset is not None and preset not in presets:
        raise unknown_name(f"preset of {name}", preset, presets)
    return presets[preset or next(iter(presets))]


def build(name: str, *, data_dir: str | Path | None = None, **arguments: Any) -> Problem:
    """Make the problem ``name`` with ``arguments``; ``data_dir`` is the folder of its data, if not the default.

    >>> build("dtlz2", m=4).objectives
    ('l1', 'l2', 'l3', 'l4')
    """
    make = entry(name).make
    known = inspect.signature(make).parameters
    if data_dir is not None and "data_dir" not in known:
        raise HyperfrontError(f"the problem {name!r} has no data", got=f"a folder, {data_dir}", fix="leave it out")
    arguments |= {} if data_dir is None else {"data_dir": data_dir}
    if unknown := [each for each in arguments if each not in known]:
        raise HyperfrontError(
            f"the problem {name!r} has no argument {unknown[0]!r}",
            expected=entry(name).arguments or ", ".join(known),
            fix=unknown_name("argument", unknown[0], known).fix,
        )
    return make(**arguments)
