"""Tables in files: comma, semicolon, tab and bar separated text, compressed or not, and Parquet."""

from __future__ import annotations

import codecs
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
BYTE_ORDER_MARKS = {
    codecs.BOM_UTF32_LE: "utf-32",  # before UTF-16, whose mark it begins with
    codecs.BOM_UTF32_BE: "utf-32",
    codecs.BOM_UTF16_LE: "utf-16",
    codecs.BOM_UTF16_BE: "utf-16",
}
ARCHIVE = b"PK\x03\x04"
"""The first bytes of a ZIP archive, such as a workbook of Excel."""
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
        folder = path if path.is_dir() else path.parent
        near = sorted(p.name for p in folder.glob("*") if is_table(p)) if folder.is_dir() else []
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
    if data.startswith(ARCHIVE):
        raise DataError(
            "the table is an archive or a workbook, not text", got=path, fix="save it as CSV, or pass a DataFrame"
        )
    guess = next((name for mark, name in BYTE_ORDER_MARKS.items() if data.startswith(mark)), "utf-8")
    name = encoding or guess
    try:
        text = data.decode(name)
    except LookupError:
        raise DataError("Python knows no such encoding", got=encoding, expected="such as latin-1 or cp1252") from None
    except UnicodeDecodeError as error:
        found = f"line {_line(data[: error.start])}: byte 0x{data[error.start]:02x}"
        raise _wrong_encoding(f"the table is not text in {name.upper()}", path, found, data) from None
    if "\0" in text:
        found = f"line {_line(data[: data.index(0)])}: a character of code 0, which text does not have"
        raise _wrong_encoding(f"the table is not text in {name.upper()}", path, found, data)
    return text.removeprefix("\ufeff")


def _line(before: bytes) -> int:
    return before.count(b"\n") + 1


def _wrong_encoding(what: str, path: Path, found: str, data: bytes) -> DataError:
    """Make the error that names the likely encoding: in UTF-16, every second byte of plain letters is zero."""
    odd, even = data[1:4096:2].count(0), data[:4096:2].count(0)
    wide = 4 * (odd + even) > min(len(data), 4096)
    likely = "latin-1" if not wide else "utf-16-le" if odd > even else "utf-16-be"
    fix = f"name its encoding: encoding={likely!r} in Python, --encoding {likely} on the command line"
    if 0 in data and not wide:
        fix = "remove it"
    return DataError(what, got=f"{path}, {found}", fix=fix)


def _parquet(data: bytes, path: Path) -> Columns:
    try:
        from pyarrow import ArrowException, BufferReader, parquet  # pyrefly: ignore[missing-import]
    except ImportError:
        raise DataError(
            "a Parquet file needs one more package", got=path, fix="pip install 'hyperfront[tabular]', or write a CSV"
        ) from None
    try:
        table = parquet.read_table(BufferReader(data))
        _refuse_twice(list(table.column_names), path)
        found = {name: table[name].to_numpy() for name in table.column_names}
    except (ArrowException, OSError, UnicodeDecodeError) as error:
        raise DataError("a Parquet file cannot be read", got=f"{path}: {error}") from None
    return columns_of(found)
