"""Tables of people in text files, read by a declared schema.

The schema is part of the code, so that a network with one embedding for each category can be made without the files. A
file with other values is refused by an error that names the file, the line, the column and the value.
"""

from __future__ import annotations

import csv
import io
import math
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from hyperfront.errors import DataError
from hyperfront.zoo.data import read as unpacked

NUMBER: tuple[str, ...] = ()
"""Stands for the categories of a column of numbers."""


@dataclass(frozen=True)
class FileSchema:
    """The columns of a file in order, each with its categories (:data:`NUMBER` has none)."""

    columns: Mapping[str, tuple[str, ...]]
    separator: str = ","
    header: bool = True
    missing: str | None = None
    """Rows with this value anywhere are dropped."""
    comment: str = "|"
    """Lines that begin with this text are skipped."""

    def code(self, column: str, category: str) -> int:
        """The number that stands for a category."""
        return self.columns[column].index(category)


def read(path: Path, schema: FileSchema, most: int | None = None) -> dict[str, np.ndarray]:
    """Read the columns of a text file, compressed or not, by name: float64 for numbers, int64 codes for categories.

    ``most`` bounds the bytes to read, unpacked.
    """
    rows = _rows(path, schema, most)
    expected = list(schema.columns)
    if schema.header:
        _, header = rows.pop(0) if rows else (0, [])
        if header != expected:
            raise DataError(
                "a data file has unexpected columns",
                got=f"{path}: {_difference(header, expected)}",
                expected=", ".join(expected),
            )
    for line, row in rows:
        if len(row) != len(expected):
            raise DataError(
                "a row of a data file has the wrong number of fields",
                got=f"{path}, line {line}: {len(row)} fields",
                expected=f"{len(expected)}: {', '.join(expected)}",
            )
    kept = [(line, row) for line, row in rows if schema.missing is None or schema.missing not in row]
    if not kept:
        raise DataError("a data file has no rows", got=path)
    lines, values = zip(*kept)
    return {
        name: _column(path, name, schema.columns[name], cells, lines) for name, cells in zip(expected, zip(*values))
    }


def _rows(path: Path, schema: FileSchema, most: int | None) -> list[tuple[int, list[str]]]:
    """The rows of the file with their line numbers, without comments and empty lines."""
    try:
        text = io.StringIO(unpacked(path, most).decode(), newline="")
        reader = csv.reader(text, delimiter=schema.separator, skipinitialspace=True, strict=True)
        return [(reader.line_num, row) for row in reader if row and not row[0].startswith(schema.comment)]
    except (OSError, EOFError, zlib.error, UnicodeDecodeError, csv.Error) as error:
        raise DataError(
            "a data file cannot be read",
            got=f"{path}: {error}",
            expected="a text table",
            fix="hyperfront data check, which compares it with the published file",
        ) from None


def _difference(found: list[str], expected: list[str]) -> str:
    extra = [name for name in found if name not in expected]
    missing = [name for name in expected if name not in found]
    parts = [f"{what} {', '.join(names)}" for what, names in (("extra", extra), ("missing", missing)) if names]
    return "; ".join(parts) or "another order: " + ", ".join(found)


def _column(
    path: Path, name: str, categories: tuple[str, ...], cells: tuple[str, ...], lines: tuple[int, ...]
) -> np.ndarray:
    convert = {category: code for code, category in enumerate(categories)}.__getitem__ if categories else _number
    values: list[float] = []
    for line, cell in zip(lines, cells):
        try:
            values.append(convert(cell))
        except (KeyError, ValueError):
            raise DataError(
                "a data file holds an unexpected value",
                got=f"{path}, line {line}, column {name}: {cell!r}",
                expected="one of " + ", ".join(categories) if categories else "a number",
            ) from None
    return np.array(values, dtype=np.int64 if categories else np.float64)


def _number(cell: str) -> float:
    value = float(cell)
    if not math.isfinite(value):
        raise ValueError
    return value
