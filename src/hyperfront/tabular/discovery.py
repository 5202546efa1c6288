"""The schema of a table, found from its values: kinds of columns, task, classes and groups.

Categories, means, deviations and quantiles are those of the training rows. Every error says how to fix the table or the
arguments, and every column that is ignored is named in a note.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import get_args

import numpy as np

from hyperfront.errors import DataError, HyperfrontError, shown, unknown_name
from hyperfront.tabular.columns import Columns, as_number, coded, numbers
from hyperfront.tabular.kinds import Kind, find_kinds
from hyperfront.tabular.schema import Column, Schema, Task, group_names, interval_names

CLASSES = 20
"""A target of whole numbers with at most this many different values has classes."""
SMALLEST = 30
"""The fewest rows of a group, by default."""
BINS = 16
"""The most intervals between the quantiles of a number."""


@dataclass(frozen=True)
class Wishes:
    """The user's statements about the columns."""

    target: str
    sensitive: tuple[str, ...] = ()
    kinds: Mapping[str, Kind] | None = None
    cuts: Mapping[str, Sequence[float]] | None = None
    labels: Mapping[str, str] | None = None
    task: Task | None = None
    positive: object = None
    smallest_group: int = SMALLEST


def check_names(columns: Columns, wishes: Wishes) -> None:
    """Raise an error for a column that the table does not have, or a target that is sensitive as well."""
    named = [("target", wishes.target), *(("sensitive", name) for name in wishes.sensitive)]
    named += [("cuts", name) for name in wishes.cuts or {}] + [("labels", name) for name in wishes.labels or {}]
    for use, name in named:
        if name not in columns:
            error = unknown_name("column", str(name), columns)
            raise DataError(f"the table has no column {name!r}, named as {use}", expected=error.expected, fix=error.fix)
    if uncut := [name for name in wishes.cuts or {} if name not in wishes.sensitive]:
        raise DataError(
            "only sensitive columns are cut into groups",
            got=f"cuts of {', '.join(uncut)}",
            fix="name the column as sensitive too, or leave its cuts out",
        )
    if wishes.target in wishes.sensitive:
        raise DataError(
            "the target is also sensitive: every prediction would differ between its groups",
            got=wishes.target,
            fix="name another column as sensitive",
        )


def with_target(columns: Columns, target: str) -> tuple[Columns, int]:
    """Return the rows with a target, and the number of rows without one."""
    if target not in columns:
        error = unknown_name("column", target, columns)
        raise DataError(f"the table has no column {target!r}, the target", expected=error.expected, fix=error.fix)
    values = columns[target]
    known = coded(values).codes >= 0
    if known.all():
        return columns, 0
    if not known.any():
        raise DataError(f"the target {target!r} is missing in every row")
    return {name: column[known] for name, column in columns.items()}, int((~known).sum())


def discover(columns: Columns, wishes: Wishes, train: np.ndarray, unused: Sequence[str]) -> tuple[Schema, list[str]]:
    """Return the schema, and notes on the columns that are ignored; ``train`` are the training rows."""
    check_names(columns, wishes)
    task, classes = _task(columns[wishes.target], wishes)
    inputs = {name: values for name, values in columns.items() if name != wishes.target}
    given: dict[str, Kind] = dict.fromkeys(unused, "ignore")
    if not isinstance(wishes.kinds, Mapping | None):
        raise DataError("kinds are not understood", got=shown(wishes.kinds), expected='kinds={"column": "ignore"}')
    given |= wishes.kinds or {}
    if wishes.target in given:
        raise DataError(
            "the target is no input, so it has no kind", got=wishes.target, fix='task="regression" and so on'
        )
    found = find_kinds(inputs, given)
    labels = dict(wishes.labels or {})
    parts = [
        _column(name, inputs[name][train], kind, labels.get(name, ""))
        for name, kind in found.kinds.items()
        if kind != "ignore"
    ]
    if not parts:
        raise DataError("the table has no column to predict from", got="; ".join(found.notes) or "the target alone")
    cuts, groups = _groups(columns, wishes, train)
    center, spread = _moments(columns[wishes.target][train]) if task == "regression" else (0.0, 1.0)
    schema = Schema(tuple(parts), wishes.target, task, classes, wishes.sensitive, cuts, groups, center, spread)
    _check_train(columns, schema, train)
    return schema, [*found.notes, *_same_but_for_case(columns, [wishes.target, *wishes.sensitive])]


def _same_but_for_case(columns: Columns, names: Sequence[str]) -> list[str]:
    """Return notes on values of the target or of groups that differ only in upper and lower case."""
    notes = []
    for name in names:
        spellings: dict[str, list[str]] = {}
        for text in coded(columns[name]).texts:
            spellings.setdefault(text.casefold(), []).append(text)
        if twice := next((each for each in spellings.values() if len(each) > 1), None):
            notes.append(f"values of {name!r} differ only in upper and lower case: {', '.join(twice)}")
    return notes


def _task(values: np.ndarray, wishes: Wishes) -> tuple[Task, tuple[str, ...]]:
    """The task of a target, and its classes in order."""
    texts = coded(values).texts
    if wishes.task is not None and wishes.task not in get_args(Task):
        raise unknown_name("task", str(wishes.task), get_args(Task))
    stated = [as_number(text) for text in texts]
    is_number = all(number is not None for number in stated)
    whole = is_number and all(float(number).is_integer() for number in stated if number is not None)
    few = len(texts) <= (CLASSES if whole else 2)
    task = wishes.task or ("regression" if is_number and not few else "binary" if len(texts) == 2 else "classes")
    if len(texts) < 2:
        raise DataError(
            f"the target {wishes.target!r} has one value only, so there is nothing to predict",
            got=texts[0],
            expected="two classes, or different numbers",
        )
    if task == "regression":
        if not is_number:
            strange = next(text for text, number in zip(texts, stated) if number is None)
            raise DataError(f"the target {wishes.target!r} is not a number everywhere", got=repr(strange))
        return task, ()
    return _classes(texts, task, wishes, len(values))


def _classes(texts: list[str], task: Task, wishes: Wishes, rows: int) -> tuple[Task, tuple[str, ...]]:
    ordered = sorted(texts, key=lambda text: (as_number(text) is None, as_number(text) or 0.0, text))
    if (task == "binary" and len(texts) != 2) or (task == "classes" and len(texts) == 2):
        raise DataError(
            f"the target {wishes.target!r} has {len(texts)} different values",
            got=", ".join(ordered[:10]),
            expected=f"as many as the task {task} has",
            fix="leave task= out",
        )
    if len(texts) > max(CLASSES, rows // 10):
        raise DataError(
            f"the target {wishes.target!r} has too many classes to learn",
            got=f"{len(texts):,} different values in {rows:,} rows",
            fix='task="regression" for numbers; else join classes, or name another target',
        )
    if wishes.positive is not None:
        positive = next(iter(coded(np.array([wishes.positive], dtype=object)).texts), "")
        if positive not in texts or task != "binary":
            raise HyperfrontError("no such positive class", got=repr(wishes.positive), expected=", ".join(ordered))
        ordered = [*(text for text in ordered if text != positive), positive]
    return task, tuple(ordered)


def _column(name: str, values: np.ndarray, kind: Kind, label: str) -> Column:
    """A column with its statistics in the training rows."""
    if kind == "category":
        found = coded(values)
        ordered = sorted(found.texts, key=lambda text: (as_number(text) is None, as_number(text) or 0.0, text))
        return Column(name, "category", tuple(ordered), label)
    read, _ = numbers(values, dates=kind == "date")
    known = read[np.isfinite(read)]
    if not len(known):
        return Column(name, "number", label=label, date=kind == "date", gaps=True)
    with np.errstate(over="ignore", invalid="ignore"):
        mean, scale = float(known.mean()), float(known.std())
    usual = np.isfinite(mean) and 0 < scale < 1e30
    edges = _edges(known.astype(np.float32))
    return Column(
        name,
        "number",
        label=label,
        date=kind == "date",
        mean=mean if np.isfinite(mean) and abs(mean) < 1e30 else 0.0,
        scale=scale if usual else 1.0,
        gaps=len(known) < len(read),
        edges=tuple(edges.tolist()) if len(edges) > 2 and np.isfinite(edges).all() else (),
    )


def _edges(known: np.ndarray) -> np.ndarray:
    """The bounds of a number's intervals, in order: each value of more than ``1 / BINS`` of the rows, such as the zeros
    of a capital gain, and the quantiles of the other rows. Quantiles of all rows would be zero nearly everywhere."""
    values, counts = np.unique(known, return_counts=True)
    often = values[counts * BINS > len(known)]
    rest = known[~np.isin(known, often)]
    quantiles = np.quantile(rest, np.linspace(0, 1, BINS + 1)) if len(rest) else rest
    return np.unique(np.concatenate([often, quantiles]))


def _moments(values: np.ndarray) -> tuple[float, float]:
    read, _ = numbers(values)
    return float(np.nanmean(read)), float(np.nanstd(read)) or 1.0


def _groups(
    columns: Columns, wishes: Wishes, train: np.ndarray
) -> tuple[dict[str, tuple[float, ...]], tuple[str, ...]]:
    """The cuts of numeric sensitive columns, and the groups, each with enough rows."""
    cuts = {name: tuple(sorted(map(float, values))) for name, values in (wishes.cuts or {}).items()}
    for name in wishes.sensitive:
        texts = coded(columns[name]).texts
        if name not in cuts and len(texts) > CLASSES:
            is_number = sum(as_number(text) is not None for text in texts) > len(texts) / 2
            raise DataError(
                f"the sensitive column {name!r} has too many different values for groups",
                got=f"{len(texts):,} different values",
                expected=f"at most {CLASSES}",
                fix=f'cut the numbers into groups: cuts={{"{name}": (25, 60)}} (--cuts {name}=25,60)'
                if is_number
                else "join its values into a few groups",
            )
    if not wishes.sensitive:
        return cuts, ()
    counts = Counter(group_names(columns, wishes.sensitive, cuts))
    counts.pop(None, None)
    groups = sorted(counts, key=str)
    if len(wishes.sensitive) == 1 and wishes.sensitive[0] in cuts:
        groups = [name for name in interval_names(wishes.sensitive[0], cuts[wishes.sensitive[0]]) if counts[name]]
    if len(groups) < 2:
        raise DataError(
            f"the sensitive columns {', '.join(wishes.sensitive)} make fewer than two groups",
            got=", ".join(map(str, groups)) or "no group",
            fix="name another column as sensitive, or none",
        )
    least = min(groups, key=lambda group: counts[group])
    if counts[least] < wishes.smallest_group:
        raise DataError(
            f"the group {least!r} is too small: its rates would be chance",
            got=f"{counts[least]} rows",
            expected=f"at least {wishes.smallest_group} rows in each group",
            fix="join it with another group in the table, or, in Python, pass smallest_group="
            f"{counts[least]} to keep it, with that uncertainty",
        )
    return cuts, tuple(map(str, groups))


def _check_train(columns: Columns, schema: Schema, train: np.ndarray) -> None:
    """Raise an error for a class or group without training rows."""
    rows = {name: values[train] for name, values in columns.items()}
    target, group = schema.labels(rows)[0], schema.members(rows)
    for code, name in enumerate(schema.classes):
        if not (target == code).any():
            raise DataError(f"no training row has the class {name!r}", fix="another seed=, or more rows of this class")
    for code, name in enumerate(schema.groups, start=1):
        if not (group == code).any():
            raise DataError(
                f"no training row is in the group {name!r}", fix="another seed=, or more rows of this group"
            )
