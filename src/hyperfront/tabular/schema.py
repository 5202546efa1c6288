"""The schema of a table: its columns, target and groups, as a document without code.

A model of a table holds its schema, so that rows with column names can be given to it anywhere: in Python, on the
command line, by a request. A row becomes numbers ``[k]``, NaN where missing, and the codes ``[c]`` of its categories, 0
where missing or unseen in training. Everything else (filling, scaling, embeddings) happens in the network.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Literal, get_args

import numpy as np
import torch
from torch import Tensor

from hyperfront.errors import CheckpointError, DataError, check_number, unknown_name
from hyperfront.errors.signatures import checked
from hyperfront.tabular.columns import Columns, Table, coded, columns_of, numbers, text_of

Task = Literal["binary", "classes", "regression"]


@checked
@dataclass(frozen=True)
class Column:
    """One input column of a table."""

    name: str
    kind: Literal["number", "category"]
    values: tuple[str, ...] = ()
    """The categories in the training rows, with the codes 1, 2, ..."""
    label: str = ""
    date: bool = False
    """Whether a number counts the days between 1970-01-01 and a date."""
    mean: float = 0.0
    scale: float = 1.0
    """The mean and standard deviation of a number in the training rows."""
    gaps: bool = False
    """Whether numbers are missing in training rows."""
    edges: tuple[float, ...] = ()
    """Quantiles of a number in the training rows, in order."""

    def __post_init__(self) -> None:
        check_number("mean of a column", self.mean)
        check_number("scale of a column", self.scale, 0, without=0)

    @checked
    def encode(self, values: np.ndarray) -> tuple[np.ndarray, int]:
        """Return numbers or codes ``[N]``, and how many values are unseen categories or no numbers."""
        if self.kind == "number":
            found, wrong = numbers(values, dates=self.date)
            return found, int(np.isnan(found).sum() - (coded(values).codes < 0).sum()) if wrong else 0
        place = {value: code for code, value in enumerate(self.values, start=1)}
        texts, codes = coded(values)
        known = np.array([*(place.get(text, 0) for text in texts), 0], dtype=np.int64)[codes]
        return known, int(((known == 0) & (codes >= 0)).sum())


@checked
@dataclass(frozen=True)
class Schema:
    """A model's knowledge of the columns of its table."""

    columns: tuple[Column, ...]
    """The inputs, in the order of the table."""
    target: str
    task: Task
    classes: tuple[str, ...] = ()
    """The values of the target; of two classes, the second is the positive one. Empty for regression."""
    sensitive: tuple[str, ...] = ()
    """The columns that divide the rows into groups."""
    cuts: Mapping[str, tuple[float, ...]] = field(default_factory=dict)
    """The numbers at which a sensitive column is cut into groups."""
    groups: tuple[str, ...] = ()
    """The groups, one for each combination of values of the sensitive columns."""
    center: float = 0.0
    spread: float = 1.0
    """The mean and standard deviation of the target in the training rows, for regression."""

    @property
    def numbers(self) -> tuple[Column, ...]:
        return tuple(column for column in self.columns if column.kind == "number")

    @property
    def categories(self) -> tuple[Column, ...]:
        return tuple(column for column in self.columns if column.kind == "category")

    @checked
    def encode(self, table: Table) -> tuple[Tensor, Tensor]:
        """Return numbers ``[B, k]`` in float32, NaN where missing, and codes ``[B, c]``, 0 where missing or unseen.

        >>> schema = Schema((Column("age", "number"), Column("job", "category", ("cook", "smith"))), "y", "binary")
        >>> schema.encode({"age": [40, None], "job": ["smith", "king"]})
        (tensor([[40.],
                [nan]]), tensor([[2],
                [0]]))
        """
        found = self._found(table)
        count = len(next(iter(found.values())))
        parts = {column.name: column.encode(found[column.name])[0] for column in self.columns}
        of_numbers = np.stack([parts[c.name] for c in self.numbers], 1) if self.numbers else np.empty((count, 0))
        codes = np.stack([parts[c.name] for c in self.categories], 1) if self.categories else np.empty((count, 0))
        with np.errstate(over="ignore"):
            narrow = of_numbers.astype(np.float32)
        narrow[np.isinf(narrow)] = np.nan
        return torch.from_numpy(narrow), torch.from_numpy(codes.astype(np.int64))

    @checked
    def unseen(self, table: Table) -> dict[str, int]:
        """Count the values that :meth:`encode` does not know, by column: unseen categories, text in numbers."""
        found = self._found(table)
        counts = {column.name: int(column.encode(found[column.name])[1]) for column in self.columns}
        return {name: count for name, count in counts.items() if count}

    def _found(self, table: Table) -> Columns:
        found = columns_of(table)
        for column in self.columns:
            if column.name not in found:
                raise DataError(
                    f"the table has no column {column.name!r}, which the model needs",
                    got=", ".join(found),
                    expected=", ".join(each.name for each in self.columns),
                    fix=unknown_name("column", column.name, found).fix or "add it, empty where it is not known",
                )
        return found

    @checked
    def labels(self, table: Table) -> tuple[Tensor, np.ndarray]:
        """Return the target ``[B]`` (0 and 1, codes of classes, or numbers) and which rows have one ``[B]``."""
        found = columns_of(table)
        if self.target not in found:
            raise DataError(f"the table has no column {self.target!r}, the target", got=", ".join(found))
        values = found[self.target]
        if self.task == "regression":
            found, wrong = numbers(values)
            if wrong:
                raise DataError(f"the target {self.target!r} is not a number everywhere", got=repr(wrong[0]))
            return torch.from_numpy(found).float(), np.isfinite(found)
        texts, codes = coded(values)
        place = {text: code for code, text in enumerate(self.classes)}
        if strange := [text for text in texts if text not in place]:
            raise DataError(
                f"the target {self.target!r} has an unknown class", got=strange[0], expected=", ".join(self.classes)
            )
        known = np.array([*(place[text] for text in texts), -1], dtype=np.int64)[codes]
        target = torch.from_numpy(known)
        return (target.float() if self.task == "binary" else target), known >= 0

    @checked
    def members(self, table: Table) -> Tensor:
        """Return the group ``[B]`` of every row: 1, 2, ... in the order of :attr:`groups`, 0 for none of them."""
        found = columns_of(table)
        count = len(next(iter(found.values())))
        if not self.groups:
            return torch.zeros(count, dtype=torch.long)
        place = {group: code for code, group in enumerate(self.groups, start=1)}
        names = group_names(found, self.sensitive, self.cuts)
        return torch.tensor([0 if name is None else place.get(name, 0) for name in names])

    @checked
    def readable(self, numbers_row: Tensor, categories_row: Tensor) -> dict[str, str]:
        """Return the values of one encoded row by column, in words.

        >>> schema = Schema((Column("age", "number"), Column("job", "category", ("cook", "smith"))), "y", "binary")
        >>> schema.readable(torch.tensor([40.0]), torch.tensor([0]))
        {'age': '40', 'job': 'missing'}
        """
        for name, row, columns in (
            ("numbers", numbers_row, self.numbers),
            ("categories", categories_row, self.categories),
        ):
            if tuple(row.shape) != (len(columns),):
                raise DataError(
                    f"the row has other {name} than the schema", got=list(row.shape), expected=[len(columns)]
                )
        values, codes = iter(numbers_row.tolist()), iter(categories_row.tolist())
        words = {}
        for column in self.columns:
            if column.kind == "number":
                words[column.name] = _number_in_words(next(values), column.date)
            else:
                code = next(codes)
                words[column.name] = column.values[code - 1] if 0 < code <= len(column.values) else "missing"
        return words

    def document(self) -> dict[str, Any]:
        """The schema as JSON, as :meth:`read` reads it."""
        return _as_json(asdict(self))

    @classmethod
    @checked
    def read(cls, document: Any) -> Schema:
        """Read the JSON of :meth:`document`; raise a :class:`CheckpointError` for anything else."""
        try:
            given = {name: value for name, value in document.items() if name not in ("columns", "cuts")}
            columns = tuple(_column(each) for each in document["columns"])
            cuts = {str(name): tuple(map(float, values)) for name, values in document["cuts"].items()}
            texts = {name: _texts(given[name]) for name in ("classes", "sensitive", "groups")}
            complete: dict[str, Any] = {**given, **texts, "columns": columns, "cuts": cuts}
            schema = cls(**complete)
            sound = isinstance(schema.target, str) and schema.task in get_args(Task) and bool(columns)
            sound = sound and len(schema.classes) >= {"binary": 2, "classes": 3, "regression": 0}[schema.task]
            sound = sound and math.isfinite(schema.center) and 0 < schema.spread < math.inf
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise CheckpointError("the schema of the table is damaged", got=repr(error)) from None
        if not sound:
            raise CheckpointError("the schema of the table is damaged", got=f"target {schema.target!r}")
        return schema


def _column(document: Any) -> Column:
    tuples = {"values": _texts(document["values"]), "edges": tuple(map(float, document["edges"]))}
    complete: dict[str, Any] = {**document, **tuples}
    column = Column(**complete)
    if not isinstance(column.name, str) or column.kind not in ("number", "category"):
        raise ValueError(f"column {column.name}")
    return column


def _texts(values: Any) -> tuple[str, ...]:
    if not isinstance(values, list) or not all(isinstance(value, str) for value in values):
        raise TypeError(f"{values!r} is no list of texts")
    return tuple(values)


def _as_json(nest: Any) -> Any:
    if isinstance(nest, dict):
        return {name: _as_json(value) for name, value in nest.items()}
    return [_as_json(value) for value in nest] if isinstance(nest, list | tuple) else nest


def _number_in_words(value: float, date: bool) -> str:
    if math.isnan(value):
        return "missing"
    if date:
        return str(np.datetime64(0, "D") + np.timedelta64(math.floor(value), "D"))
    return text_of(float(f"{value:.6g}")) or "missing"


def group_names(
    columns: Columns, sensitive: tuple[str, ...], cuts: Mapping[str, tuple[float, ...]]
) -> list[str | None]:
    """Return the group of every row, the values of its sensitive columns; None where one of them is missing.

    >>> people = {"age": np.array([20, 40, np.nan]), "sex": np.array(["f", "m", "f"])}
    >>> group_names(people, ("age", "sex"), {"age": (30,)})
    ['age below 30, f', 'age from 30, m', None]
    """
    parts = []
    for name in sensitive:
        if name not in columns:
            raise DataError(f"the table has no column {name!r}, which makes groups", got=", ".join(columns))
        if name in cuts:
            found, _ = numbers(columns[name])
            words = interval_names(name, cuts[name])
            places = np.searchsorted(np.array(cuts[name]), found, side="right")
            parts.append([None if math.isnan(value) else words[place] for value, place in zip(found, places)])
        else:
            texts, codes = coded(columns[name])
            parts.append([None if code < 0 else texts[code] for code in codes])
    return [None if None in row else ", ".join(row) for row in zip(*parts)]


def interval_names(name: str, cuts: tuple[float, ...]) -> list[str]:
    """The names of the groups between cuts.

    >>> interval_names("age", (25, 60))
    ['age below 25', 'age 25 to below 60', 'age from 60']
    """
    ends = [f"{cut:g}" for cut in cuts]
    between = [f"{name} {low} to below {high}" for low, high in itertools.pairwise(ends)]
    return [f"{name} below {ends[0]}", *between, f"{name} from {ends[-1]}"]
