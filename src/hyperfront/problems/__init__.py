"""Built-in problems by name, each with the settings that train it well."""

from __future__ import annotations

from typing import Any

from hyperfront.errors import HyperfrontError, unknown_name
from hyperfront.problem import Problem
from hyperfront.problems import fairness, sarcos, toys
from hyperfront.problems.recipe import Entry, Recipe

TOY = Recipe(rays_per_step=16)

PROBLEMS: dict[str, Entry] = (
    {
        "fonseca": Entry(toys.fonseca, "two Gaussian wells, concave front; arguments: variables=100", {"best": TOY}),
        "vlmop2": Entry(toys.vlmop2, "the same in the box [-2, 2]^d; arguments: variables=2", {"best": TOY}),
        "zdt1": Entry(toys.zdt1, "convex front; arguments: variables=30", {"best": TOY}),
        "zdt2": Entry(toys.zdt2, "concave front; arguments: variables=30", {"best": TOY}),
        "zdt3": Entry(toys.zdt3, "front in five pieces; arguments: variables=30", {"best": TOY}),
        "dtlz2": Entry(
            toys.dtlz2,
            "the unit sphere, any number of objectives; arguments: m=3 distance_variables=10",
            {"best": Recipe(epochs=60, rays_per_step=64, alpha=1.0, evaluation_rays=45)},
        ),
        "problem2": Entry(toys.problem2, "Problem 2 of Evtushenko & Posypkin, concave front", {"best": TOY}),
    }
    | fairness.ENTRIES
    | sarcos.ENTRIES
)


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


def build(name: str, **arguments: Any) -> Problem:
    """The problem ``name`` with ``arguments``.

    >>> build("dtlz2", m=4).objectives
    ('l1', 'l2', 'l3', 'l4')
    """
    make = entry(name).make
    try:
        return make(**arguments)
    except TypeError as error:
        raise HyperfrontError(f"the problem {name!r} does not take these arguments", got=error) from None
