"""Points to draw beside a front: of another front, a file or another tool, by the names of losses and scores."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from hyperfront.errors import HyperfrontError

Columns = dict[str, Tensor]
"""Losses and scores ``[R]`` by name."""


def named(beside: Any, names: Sequence[str]) -> dict[str, Columns]:
    """Read one source, a list of sources, or a mapping from words to sources.

    A source is a CSV file, a front or its JSON file, or a mapping from names of losses and scores to numbers. Each gets
    the columns that it has among ``names``.
    """
    if beside is None:
        return {}
    if isinstance(beside, Mapping):
        return {str(word): columns(source, names) for word, source in beside.items()}
    sources = [*beside] if isinstance(beside, list | tuple) else [beside]
    return {_word(source, place): columns(source, names) for place, source in enumerate(sources)}


def columns(source: Any, names: Sequence[str]) -> Columns:
    """The columns of one source."""
    if isinstance(source, str | Path):
        path = Path(source)
        if path.suffix.lower() == ".csv":
            return of_csv(path, names)
        from hyperfront.front.front import Front  # which imports this module

        source = Front.load(path)
    found = source if isinstance(source, Mapping) else getattr(source, "columns", None)
    found = found() if callable(found) else found
    if not isinstance(found, Mapping):
        raise HyperfrontError(
            "points to draw beside a front are not understood",
            got=type(source).__name__,
            expected="a CSV file, a front, or a mapping from losses and scores to numbers",
            fix='beside={"fairlearn": "fairlearn.csv"}',
        )
    table = {name: torch.as_tensor(found[name], dtype=torch.float64).flatten() for name in names if name in found}
    if len({len(column) for column in table.values()}) > 1:
        raise HyperfrontError(
            "columns of points differ in length", got={name: len(column) for name, column in table.items()}
        )
    return table


def of_csv(path: Path, names: Sequence[str]) -> Columns:
    """The columns of a CSV file that have one of the names; other columns are left out, and empty cells are NaN."""
    try:
        text = path.read_text("utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise HyperfrontError("the file of points cannot be read", got=f"{path}: {error}") from None
    rows = [*csv.DictReader(io.StringIO(text))]
    known = [name for name in names if rows and name in rows[0]]
    if len(known) < 2:
        raise HyperfrontError(
            "the file has no points to draw",
            got=f"{path}: columns {', '.join(rows[0]) if rows else 'without rows'}",
            expected="two columns at least of " + ", ".join(names),
        )
    try:
        found = {name: [float(row[name] or "nan") for row in rows] for name in known}
    except (TypeError, ValueError) as error:
        raise HyperfrontError("a point in the file is not a number", got=f"{path}: {error}") from None
    return {name: torch.tensor(values, dtype=torch.float64) for name, values in found.items()}


def _word(source: Any, place: int) -> str:
    """The name of a source in the legend."""
    if isinstance(source, str | Path):
        path = Path(source)
        return path.parent.name if path.name == "front.json" else path.stem
    known = getattr(source, "provenance", {})
    return str(known.get("solver") or known.get("problem") or f"points {place + 1}")
