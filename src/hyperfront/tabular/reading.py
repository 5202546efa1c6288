"""Tables in files: comma, semicolon, tab and bar separated text, compressed or not, and Parquet."""

from __future__ import annotations

import csv
import gzip
import hashlib
import io
import zlib
from pathlib import Path
from typing import Any

import numpy as np

from hyperfront.errors import DataError
from hyperfront.errors.signatures import checked
from hyperfront.storage.files import as_path
from hyperfront.tabular.columns import Columns, columns_of

SUFFIXES = (".csv", ".tsv", ".txt", ".csv.gz", ".tsv.gz", ".parquet")
BYTE_ORDER_MARKS = {b"\xff\xfe": "utf-16", b"\xfe\xff": "utf-16"}
FIELD = 10**6
"""The most characters of one field."""


def is_table(name: Any) -> bool:
    """Whether a file is a table, by the ending of its name."""
    return str(name).lower().endswith(SUFFIXES)


def digest(data: bytes) -> str:
    """The SHA-256 of a file's bytes."""
    return hashlib.sha256(data).hexdigest()


def load_bytes(path: str | Path) -> bytes:
    """The bytes of a file; an error says how to name another one."""
    path = as_path(path)
    if not path.is_file():
        near = sorted(p.name for p in path.parent.glob("*") if is_table(p)) if path.parent.is_dir() else []
        raise DataError(
            "there is no such table", got=path, fix=f"there are {', '.join(near[:5])}" if near else "check the path"
        )
    return path.read_bytes()


@checked
def read(path: str | Path, *, encoding: str | None = None) -> Columns:
    """Read the columns of a file by name. Text is UTF-8, unless ``encoding`` names another encoding."""
    return parse(load_bytes(path), Path(path), encoding=encoding)


def parse(data: bytes, path: Path, *, encoding: str | None = None) -> Columns:
    """Read the columns in the bytes of a file; ``path`` names it in errors, and its ending states the format."""
    if path.suffix.lower() == ".parquet":
        return _parquet(data, path)
    try:
        data = gzip.decompress(data) if path.suffix.lower() == ".gz" else data
    except (OSError, EOFError, zlib.error) as error:
        raise DataError("a compressed table is damaged", got=f"{path}: {error}") from None
    lines = io.StringIO(_decoded(data, path, encoding), newline="")
    head = lines.readline()
    separator = max(",;\t|", key=head.count)
    lines.seek(0)
    csv.field_size_limit(FIELD)
    try:
        reader = csv.reader(lines, delimiter=separator, skipinitialspace=True, strict=True)
        rows = [(reader.line_num, row) for row in reader if row]
    except csv.Error as error:
        raise DataError("a table cannot be read", got=f"{path}: {error}", expected="fields in double quotes") from None
    return _columns(rows, path)


def _columns(rows: list[tuple[int, list[str]]], path: Path) -> Columns:
    if not rows:
        raise DataError("a table has no line with the names of its columns", got=path)
    names = [name.strip() or f"column {place}" for place, name in enumerate(rows[0][1], start=1)]
    for line, row in rows[1:]:
        if len(row) != len(names):
            raise DataError(
                "a row of a table has the wrong number of fields",
                got=f"{path}, line {line}: {len(row)} fields",
                expected=f"{len(names)}, as in the first line",
            )
    if len(rows) == 1:
        raise DataError("the table has no rows", got=path)
    _refuse_twice(names, path)
    return columns_of(dict(zip(names, (np.array(cells, dtype=object) for cells in zip(*(row for _, row in rows[1:]))))))


def _refuse_twice(names: list[str], path: Path) -> None:
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise DataError(
            "two columns of the table have the same name", got=f"{path}: {', '.join(twice)}", fix="rename one of them"
        )


def _decoded(data: bytes, path: Path, encoding: str | None) -> str:
    guess = BYTE_ORDER_MARKS.get(data[:2], "utf-8-sig")
    try:
        return data.decode(encoding or guess)
    except LookupError:
        raise DataError("Python knows no such encoding", got=encoding, expected="such as latin-1 or cp1252") from None
    except UnicodeDecodeError as error:
        line = data[: error.start].count(b"\n") + 1
        raise DataError(
            f"the table is not text in {encoding or 'UTF-8'}",
            got=f"{path}, line {line}: byte 0x{data[error.start]:02x}",
            fix="name its encoding: encoding='latin-1' in Python, --encoding latin-1 on the command line",
        ) from None


def _parquet(data: bytes, path: Path) -> Columns:
    try:
        from pyarrow import ArrowException, BufferReader, parquet  # pyrefly: ignore[missing-import]
    except ImportError:
        raise DataError(
            "a Parquet file needs one more package", got=path, fix="pip install 'hyperfront[tabular]', or write a CSV"
        ) from None
    try:
        table = parquet.read_table(BufferReader(data))
    except (ArrowException, OSError) as error:
        raise DataError("a Parquet file cannot be read", got=f"{path}: {error}") from None
    _refuse_twice(list(table.column_names), path)
    return columns_of({name: table[name].to_numpy() for name in table.column_names})
