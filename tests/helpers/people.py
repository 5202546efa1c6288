"""Small files in the format of the tables of people, filled at random from their declared columns."""

from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np

from hyperfront.zoo.data import people
from hyperfront.zoo.data.people import DataSet
from hyperfront.zoo.data.tables import FileSchema


def table(schema: FileSchema, rows: int, seed: int = 0) -> list[list[str]]:
    """The header, if the file has one, and random rows."""
    generator = np.random.default_rng(seed)

    def cell(categories: tuple[str, ...]) -> str:
        return str(generator.choice(categories)) if categories else str(generator.integers(17, 80))

    body = [[cell(categories) for categories in schema.columns.values()] for _ in range(rows)]
    return [list(schema.columns), *body] if schema.header else body


def write(path: Path, schema: FileSchema, rows: list[list[str]]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    with gzip.open(path, "wt") as file:
        file.writelines(schema.separator.join(row) + "\n" for row in rows)
    return path


def install(monkeypatch, folder: Path, data: DataSet, rows: int) -> None:
    """Random files in the place of the real ones, whose checksums they do not have."""
    for number, name in enumerate(data.files):
        write(folder / name, data.schema, table(data.schema, rows, seed=number))
    monkeypatch.setattr(people, "find", lambda name, data_dir: Path(folder) / name)
