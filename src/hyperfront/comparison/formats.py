"""How stored results and tuning files are read: older schemas are upgraded, and missing settings filled in.

======= ==============================================================================================================
schema  difference to the schema before
======= ==============================================================================================================
1       Tuning files that a study keeps state neither a format nor a schema.
2       American spelling of keys in recipes: ``initialization`` instead of ``initialisation``.
======= ==============================================================================================================

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
from hyperfront.storage.schemas import respell, upgrade

RESULT, TUNED = "hyperfront-result", "hyperfront-tuned"
STEPS = (respell,)
"""One function for each step from a schema to the next one; both formats have the same steps so far."""
SCHEMA = len(STEPS) + 1


def stamped(kind: str, document: Mapping[str, Any]) -> dict[str, Any]:
    """A document to write, with its format and today's schema."""
    return {"format": kind, "schema": SCHEMA, **document}


def read(kind: str, path: Path, *, settings: str) -> dict[str, Any]:
    """The document in a file, in today's schema and without its stamp; ``settings`` names the key of its settings.

    Raises a ``KeyError`` or ``TypeError`` for a document of another format.
    """
    unstamped = {"format": TUNED, "schema": 1} if kind == TUNED else {}
    document = unstamped | files.read_json(path)
    if document.pop("format") != kind:
        raise KeyError("format")
    document = upgrade(document, STEPS, path)
    del document["schema"]
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
