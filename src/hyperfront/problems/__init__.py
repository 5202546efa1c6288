"""Built-in problems by name, each with the settings that train it well."""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import Any

from hyperfront.errors import HyperfrontError, unknown_name
from hyperfront.problem import Problem
from hyperfront.problems import fairness, multi_mnist, nyuv2, sarcos, toys
from hyperfront.problems.recipe import Entry, Recipe

PROBLEMS: dict[str, Entry] = toys.ENTRIES | multi_mnist.ENTRIES | fairness.ENTRIES | sarcos.ENTRIES | nyuv2.ENTRIES


def entry(name: str) -> Entry:
    """The built-in problem of that name, or an error that suggests the nearest one."""
    if name not in PROBLEMS:
        raise unknown_name("problem", name, PROBLEMS)
    return PROBLEMS[name]


def recipe(name: str, preset: str | None = None) -> Recipe:
    """The preset of a built-in problem; by default its first."""
    presets = entry(name).presets
    if preset is not None and preset not in presets:
        raise unknown_name(f"preset of {name}", preset, presets)
    return presets[preset or next(iter(presets))]


def build(name: str, *, data_dir: str | Path | None = None, **arguments: Any) -> Problem:
    """The problem ``name`` with ``arguments``; ``data_dir`` says where its data are, if not in the usual place.

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
