"""Columns of a table by name: a DataFrame of pandas or polars, a mapping of columns, or a list of rows.

A column is a NumPy array. Values of any other kind are compared by their *text*, which is the same for a number read
from a file and the same number in a DataFrame: 1, 1.0 and "1" are one value. A missing value has no text.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, date, datetime
from typing import Any, NamedTuple

import numpy as np

from hyperfront.errors import DataError, shown

Table = Any
Columns = dict[str, np.ndarray]
MISSING = {"", "?", "#N/A", "N/A", "n/a", "NA", "<NA>", "NULL", "null", "NaN", "nan", "None", "NaT"}
"""Texts that stand for a missing value."""
INFINITE = {"inf", "infinity"}
"""Texts of infinite numbers, in lower case and without a sign; they count as missing too."""
DAY = 86_400.0


class Coded(NamedTuple):
    """The different texts of a column, and which of them each row has; -1 is missing."""

    texts: list[str]
    codes: np.ndarray

    def counts(self) -> np.ndarray:
        """The number of rows with each text."""
        return np.bincount(self.codes[self.codes >= 0], minlength=len(self.texts))


def columns_of(table: Table) -> Columns:
    """Return the columns of a table by name, all of the same length; errors say how to fix the table."""
    names = [str(name) for name in _names(table)]
    if twice := [name for name, count in Counter(names).items() if count > 1]:
        raise DataError(
            "two columns of the table have the same name", got=", ".join(twice), fix="rename one of them, or drop it"
        )
    if isinstance(table, Mapping):
        found = {str(name): _array(values) for name, values in table.items()}
    elif _is_frame(table):
        found = {str(name): table[name].to_numpy() for name in table.columns}
    else:
        found = {name: _array([row.get(name) for row in table]) for name in names}
    lengths = {name: len(column) for name, column in found.items()}
    if len(set(lengths.values())) > 1:
        raise DataError("the columns of the table have different lengths", got=lengths)
    if not found or not next(iter(lengths.values())):
        raise DataError("the table has no rows" if found else "the table has no columns")
    return found


def _is_frame(table: Table) -> bool:
    """Whether this is a DataFrame of some library."""
    return hasattr(table, "__getitem__") and isinstance(getattr(table, "columns", None), Iterable)


def _names(table: Table) -> list[Any]:
    if isinstance(table, Mapping):
        return list(table)
    if _is_frame(table):
        return list(table.columns)
    if isinstance(table, Sequence) and table and all(isinstance(row, Mapping) for row in table):
        return list(dict.fromkeys(name for row in table for name in row))
    raise DataError(
        "this is no table with named columns",
        got=type(table).__name__,
        expected="a DataFrame of pandas or polars, a mapping of columns, a list of rows, or the path of a file",
        fix="pandas.DataFrame(array, columns=[...])" if isinstance(table, np.ndarray) else None,
    )


def _array(values: Any) -> np.ndarray:
    if isinstance(values, np.ndarray):
        if values.ndim != 1 or values.dtype.kind not in "biufMmOSUT":
            raise DataError("a column of the table is no list of values", got=f"{values.dtype} {list(values.shape)}")
        return values
    if not isinstance(values, Iterable):
        raise DataError("a column of the table holds no values", got=shown(values), expected="a list or an array")
    values = list(values) if not isinstance(values, str) else [values]
    array = np.empty(len(values), dtype=object)
    array[:] = values
    return array


def coded(values: np.ndarray) -> Coded:
    """Return the different texts of a column and the code of each row.

    >>> coded(np.array([1.0, 2.5, float("nan"), 1.0]))
    Coded(texts=['1', '2.5'], codes=array([ 0,  1, -1,  0]))
    """
    texts: dict[str, int] = {}
    if values.dtype.kind in "biuf":
        different, rows = np.unique(values, return_inverse=True)
        of_each = [_code(text_of(value), texts) for value in different.tolist()]
        return Coded(list(texts), np.array(of_each, dtype=np.int64)[rows.reshape(-1)])
    known: dict[Any, int] = {}
    codes = np.empty(len(values), dtype=np.int64)
    for row, value in enumerate(values.tolist() if values.dtype.kind != "M" else values.astype(str).tolist()):
        key = (type(value), value)
        try:
            code = known[key]
        except KeyError:
            code = known[key] = _code(text_of(value), texts)
        except TypeError:  # no value of a table, such as a list
            code = _code(text_of(value), texts)
        codes[row] = code
    return Coded(list(texts), codes)


def _code(text: str | None, texts: dict[str, int]) -> int:
    return -1 if text is None else texts.setdefault(text, len(texts))


def text_of(value: Any) -> str | None:
    """The text of a value; None for a missing or infinite one.

    >>> text_of(3.0), text_of(" yes "), text_of(float("nan")), text_of(True), text_of("?")
    ('3', 'yes', None, 'True', None)
    >>> text_of("-inf") is None
    True
    """
    if isinstance(value, float):
        return None if not math.isfinite(value) else str(int(value)) if value.is_integer() else str(value)
    text = str(value).strip()
    return None if text in MISSING or text.lower().lstrip("+-") in INFINITE else text


def as_number(text: str) -> float | None:
    """The number that a text states, or None; infinity becomes NaN, which is a missing value."""
    try:
        number = float(text)
    except ValueError:
        return None
    return number if math.isfinite(number) else math.nan


def as_days(text: str) -> float | None:
    """The days between 1970 and a date or time in the format of ISO 8601, or None.

    >>> as_days("1970-01-03"), as_days("1970-01-01T12:00"), as_days("soon")
    (2.0, 0.5, None)
    """
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return None
    moment = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    return (moment - datetime(1970, 1, 1, tzinfo=UTC)).total_seconds() / DAY


def is_date(values: np.ndarray) -> bool:
    """Whether the column holds dates, not their text."""
    return values.dtype.kind == "M" or (values.dtype == object and any(isinstance(v, date) for v in values[:100]))


def numbers(values: np.ndarray, *, dates: bool = False) -> tuple[np.ndarray, list[str]]:
    """Return the numbers ``[N]`` of a column, NaN where missing, and the texts that are no number (NaN as well).

    Booleans are 0 and 1. Infinity counts as missing. With ``dates``, texts are dates, and numbers days since 1970.
    """
    if values.dtype.kind in "biuf" and not dates:
        found = values.astype(np.float64)
        return np.where(np.isfinite(found), found, np.nan), []
    texts, codes = coded(values)
    read = [as_days(text) if dates else {"True": 1.0, "False": 0.0}.get(text, as_number(text)) for text in texts]
    wrong = [text for text, number in zip(texts, read) if number is None]
    table = np.array([math.nan if number is None else number for number in read] + [math.nan])
    return table[codes], wrong
