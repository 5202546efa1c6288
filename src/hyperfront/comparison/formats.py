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

from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from hyperfront.comparison.methods import METHODS
from hyperfront.problem.recipe import Recipe
from hyperfront.storage import files
from hyperfront.storage.provenance import describe
from hyperfront.storage.schemas import Format, respell

RESULT = Format("hyperfront-result", steps=(respell,))
TUNED = Format("hyperfront-tuned", steps=(respell,))


def read(kind: Format, path: Path, *, settings: str) -> dict[str, Any]:
    """The document in a file, in the current schema and without its stamp; ``settings`` is the key of its settings.

    Raises a ``KeyError`` or ``TypeError`` for a document of another format.
    """
    unstamped = {"format": kind.name, "schema": 1} if kind is TUNED else {}
    document = kind.upgrade(unstamped | files.read_json(path), path)
    del document["format"], document["schema"]
    return document | {settings: filled(document.get(settings, {}))}


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
