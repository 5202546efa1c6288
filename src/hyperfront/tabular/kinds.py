"""The kind of every column: a number, a category, or ignored; found from the values, or given.

============================================ ==========================================================
column                                       kind
============================================ ==========================================================
numbers, or text that states numbers         number
dates and times (ISO 8601)                   number: days since 1970-01-01
other text, truth values                     category
one value only, or no value at all           ignored, with a note
text that differs in most rows, row numbers  ignored, with a note (it would be learned by heart)
mostly numbers, with some other text         an error that shows the text
numbers such as "3,5", "1,200" or "$5"       an error that shows one
============================================ ==========================================================
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np

from hyperfront.errors import DataError, unknown_name
from hyperfront.tabular.columns import Coded, Columns, as_days, as_number, coded, is_date, numbers

Kind = Literal["number", "date", "category", "ignore"]
MANY = 50
"""A column with more different texts than this, in most rows another, identifies rows."""
WRITTEN = re.compile(r"[$€£¥]? ?[+-]?[$€£¥]? ?\d+([., '\u2019\u00a0\u202f]\d{3})*([.,]\d+)? ?[$€£¥%]?")
"""Numbers as people write them: a decimal comma, separators of thousands, signs of a currency or percent."""


@dataclass(frozen=True)
class Found:
    """The kinds of the columns that can be inputs, and notes on columns that are ignored."""

    kinds: dict[str, Kind]
    notes: tuple[str, ...]


def find_kinds(columns: Columns, given: Mapping[str, Kind]) -> Found:
    """Find the kind of every column; ``given`` kinds are kept."""
    for name, kind in given.items():
        if not isinstance(name, str) or name not in columns:
            raise unknown_name("column", name, columns)
        if not isinstance(kind, str) or kind not in get_args(Kind):
            raise unknown_name(f"kind of the column {name!r}:", kind, get_args(Kind))
        _refuse_unread(name, columns[name], kind)
    kinds: dict[str, Kind] = {}
    notes = []
    for name, values in columns.items():
        kinds[name], note = (given[name], "") if name in given else _kind(name, values)
        notes += [f"column {name!r} is ignored: {note}"] if note else []
    return Found(kinds, tuple(notes))


def _refuse_unread(name: str, values: np.ndarray, kind: Kind) -> None:
    """Raise an error if values of a column are not of the kind that was given; they would all be missing."""
    unread = numbers(values, dates=kind == "date")[1] if kind in ("number", "date") else []
    if unread:
        raise DataError(
            f"the column {name!r} has values that are no {kind}",
            got=", ".join(map(repr, unread[:3])),
            expected="dates such as 2024-12-31" if kind == "date" else "numbers such as 3.5",
            fix="rewrite them, and leave cells without a value empty; or give another kind",
        )


def _kind(name: str, values: np.ndarray) -> tuple[Kind, str]:
    """The kind of a column, and why it is ignored."""
    if values.dtype.kind in "iuf":
        return _number(values)
    found = coded(values)
    if not found.texts:
        return "ignore", "it has no values"
    if len(found.texts) == 1 and (found.codes >= 0).all():
        return "ignore", f"all rows have the same value, {found.texts[0]}"
    if is_date(values):
        return "date", ""
    if values.dtype.kind == "b":
        return "category", ""
    return _text(name, found)


def _number(values: np.ndarray) -> tuple[Kind, str]:
    known = values[np.isfinite(values)]
    if not len(known):
        return "ignore", "it has no values"
    least, most = known.min(), known.max()
    if least == most and len(known) == len(values):
        return "ignore", f"all rows have the same value, {least:g}"
    return ("ignore", "it numbers the rows") if len(known) == len(values) and _numbers_rows(known) else ("number", "")


def _numbers_rows(values: np.ndarray) -> bool:
    """Whether the values are whole numbers without a gap, or increase from row to row with few gaps."""
    length = values.max() - values.min() + 1
    if len(values) <= MANY or length >= 2 * len(values) or not (values == np.round(values)).all():
        return False
    return bool((np.diff(values) > 0).all()) or (length == len(values) == len(np.unique(values)))


def _text(name: str, found: Coded) -> tuple[Kind, str]:
    counts = found.counts()
    rows = int(counts.sum())
    stated = np.array([as_number(text) is not None for text in found.texts])
    if stated.all():
        table = np.array([*map(float, found.texts), np.nan])
        return _number(table[found.codes])
    if counts[stated].sum() > rows / 2:
        strange = [text for text, fine in zip(found.texts, stated) if not fine]
        raise DataError(
            f"column {name!r} mixes numbers with other text",
            got=", ".join(map(repr, strange[:5])) + (f" and {len(strange) - 5} more" if len(strange) > 5 else ""),
            expected="numbers, or one of the texts for a missing value, such as an empty field or NA",
            fix=f'kinds={{"{name}": "number"}} takes other text for missing; kinds={{"{name}": "category"}} keeps it '
            f"(--kinds {name}=number on the command line)",
        )
    if all(as_days(text) is not None for text in found.texts):
        return "date", ""
    if all(WRITTEN.fullmatch(text) for text in found.texts):
        raise DataError(
            f"column {name!r} holds numbers that are not written as plain numbers",
            got=repr(next(text for text, fine in zip(found.texts, stated) if not fine)),
            expected="such as 1234.5: a point before decimals, no separators of thousands, no sign of a unit",
            fix=f'rewrite them, or take them as text: kinds={{"{name}": "category"}} (--kinds {name}=category)',
        )
    if len(found.texts) > max(MANY, rows / 2):
        return "ignore", f"{len(found.texts):,} different texts in {rows:,} rows identify the rows"
    return "category", ""
