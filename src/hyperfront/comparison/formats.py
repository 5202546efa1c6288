"""Formats of stored results and tuning files: older schemas are upgraded, and missing settings filled in.

======= ======= ======================================================================================================
format  schema  difference from the schema before
======= ======= ======================================================================================================
result  2       American spelling of keys in recipes: ``initialization`` instead of ``initialisation``.
tuning  1       Files that a study keeps state neither a format nor a schema.
tuning  2       American spelling, as in results.
======= ======= ======================================================================================================

A setting that a file does not have gets its default: of the recipe, and of the method's own options. So a new field
needs no new schema, if its default gives the behavior of earlier versions.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any, get_args

from hyperfront.comparison.methods import METHODS
from hyperfront.preferences import Convention
from hyperfront.problem.recipe import Recipe
from hyperfront.storage import files
from hyperfront.storage.provenance import describe
from hyperfront.storage.schemas import Format, respell

RESULT = Format("hyperfront-result", steps=(respell,))
TUNED = Format("hyperfront-tuned", steps=(respell,))


def read(kind: Format, path: Path, *, settings: str) -> dict[str, Any]:
    """The document in a file, in the current schema and without its stamp; ``settings`` is the key of its settings.

    Raises a ``KeyError``, ``TypeError`` or ``ValueError`` for a document of another format.
    """
    unstamped = {"format": kind.name, "schema": 1} if kind is TUNED else {}
    document = kind.upgrade(unstamped | files.read_json(path), path)
    del document["format"], document["schema"]
    given = document.get(settings, {})
    _check(isinstance(given, dict), settings)
    return document | {settings: filled(given)}


def check_result(document: Mapping[str, Any]) -> None:
    """Raise a ``TypeError``, ``ValueError`` or ``KeyError`` for a result with a part of the wrong type or shape."""
    texts = [document[name] for name in ("problem", "preset", "solver", "family")]
    objectives, rays, reference = document["objectives"], document["rays"], document["reference"]
    _check(isinstance(objectives, list) and _all(str, [*texts, *objectives]), "names and objectives")
    _check(len({*objectives}) == len(objectives) >= 2, "names and objectives")
    _check(document["convention"] in get_args(Convention), "convention")
    _check(_whole(document["seed"]) and _whole(document["parameters"]), "seed and parameters")
    _check(_table(rays, len(rays), len(objectives)) if rays else rays == [], "rays")
    _check(all(min(ray) >= 0 and abs(sum(ray) - 1) < 1e-3 for ray in rays), "rays")
    _check(_numbers(reference) and len(reference) in (0, len(objectives)), "reference")
    seconds, status, settings = document["seconds"], document["status"], document["settings"]
    _check(_numbers([*seconds.values(), seconds["training"]]), "seconds")
    _check(all(map(_whole, status.values())), "status")
    _check(_all(bool, document["maximize"].values()), "maximize")
    _check(_all(dict, [document["environment"], *(settings.get(name, {}) for name in NESTED)]), "settings")
    _check(isinstance(settings.get("rays", []), list), "settings")
    for split in ("val", "test"):
        front = document["fronts"][split]
        _check(_table(front["losses"], len(rays) or len(front["losses"]), len(objectives)), f"losses of {split}")
        _check(_table(list(front["scores"].values()), None, len(front["losses"])), f"scores of {split}")
        shown = [front[name] for name in ("hypervolume", "uniformity", "nondominated") if front[name] is not None]
        _check(_numbers(shown), f"indicators of {split}")


NESTED = ("arguments", "model", "solver")
"""Settings that have settings of their own, as far as a file has them."""


def _check(right: bool, what: str) -> None:
    if not right:
        raise ValueError(what)


def _all(kind: type, values: Iterable[Any]) -> bool:
    return all(isinstance(value, kind) for value in values)


def _whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _numbers(values: Any) -> bool:
    """Whether these are finite numbers, in a list or tuple."""
    if not isinstance(values, list | tuple):
        return False
    return all(isinstance(v, int | float) and not isinstance(v, bool) and abs(v) < math.inf for v in values)


def _table(rows: Any, count: int | None, columns: int) -> bool:
    """Whether these are rows of finite numbers: ``count`` of them, at least one, or any number if that is None."""
    right = isinstance(rows, list) and (count is None or len(rows) == count > 0)
    return right and all(_numbers(row) and len(row) == columns for row in rows)


def filled(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Stored settings of a method in today's spelling, with defaults for settings that they do not have.

    >>> filled({"lr": 0.5, "budget": {"generations": 3}})["budget"]
    {'generations': 3, 'population': 100, 'rows': 4096}
    """
    settings = respell(dict(settings))
    kinds = {method.options for method in METHODS.values() if method.options}
    own = {kind.__name__.lower(): describe(asdict(kind())) for kind in kinds}
    given = {name: own[name] | settings[name] for name in own.keys() & settings.keys()}
    return describe(asdict(Recipe())) | settings | given
