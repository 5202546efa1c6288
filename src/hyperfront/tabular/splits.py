"""Splits of a table: by rows, by groups of rows that belong together, or by time.

======================= ===========================================================================================
``"rows"``              every row goes to a random split
``{"group": column}``   rows with the same value go to the same split, such as all visits of one patient
``{"time": column}``    the earliest rows train, then come validation, calibration and test
======================= ===========================================================================================

The order is that of the raw numbers of the generator PCG64, which NumPy promises not to change. Its seed is the pair of
``seed`` and :data:`OWN`: with ``seed`` alone, the order would depend on values that ``default_rng(seed)`` has drawn.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, Literal

import numpy as np

from hyperfront.errors import DataError, shown, unknown_name
from hyperfront.tabular.columns import Columns, coded, is_date, numbers

Plan = Literal["rows"] | Mapping[str, str]
OWN = 0x7461626C65
"""A constant that makes these random numbers differ from other uses of the same seed."""
FEW = 10
"""A class with fewer rows in a split gets a note."""
SHARES = {"train": 0.6, "val": 0.15, "calibration": 0.1, "test": 0.15}


def split_rows(columns: Columns, plan: Plan, shares: Mapping[str, float], seed: int) -> dict[str, np.ndarray]:
    """Return the row numbers of each split, in the order of the table."""
    count = len(next(iter(columns.values())))
    column = split_column(plan, columns)
    shares = check_shares(shares)
    if column is None:
        parts = _cut(_shuffled(count, seed), shares)
    elif "time" in plan:
        values, wrong = numbers(columns[column], dates=_has_dates(columns[column]))
        if wrong or np.isnan(values).any():
            raise DataError(
                f"the time column {column!r} has values that are no time",
                got=repr(wrong[0]) if wrong else f"{int(np.isnan(values).sum())} missing values",
                expected="numbers or dates such as 2026-01-31",
                fix="drop these rows",
            )
        parts = _cut(np.argsort(values, kind="stable"), shares)
    else:
        parts = _whole_groups(coded(columns[column]).codes, shares, seed)
    if empty := [name for name, rows in parts.items() if not len(rows)]:
        raise DataError(
            f"the table has too few rows{' or groups' if column else ''} for its splits",
            got=f"{count} rows, none for {empty[0]}",
            fix='other shares, such as shares={"train": .5, "val": .25, "test": .25}',
        )
    return {name: np.sort(rows) for name, rows in parts.items()}


def split_column(plan: Plan, columns: Columns) -> str | None:
    """The column that a plan divides the rows by; None for ``"rows"``."""
    if isinstance(plan, str) and plan == "rows":
        return None
    if not isinstance(plan, Mapping) or len(plan) != 1 or next(iter(plan)) not in ("group", "time"):
        raise DataError("no such split", got=shown(plan), expected='"rows", {"group": column} or {"time": column}')
    column = next(iter(plan.values()))
    if not isinstance(column, str) or column not in columns:
        raise unknown_name("column", column, columns)
    return column


def caveat(plan: Plan) -> str | None:
    """Why the calibration rows of a plan are no random sample of new rows; None if they are one."""
    kind = "rows" if isinstance(plan, str) else next(iter(plan))
    return {
        "time": "the rows were split by time, so they are no random sample: nothing is certified for later times",
        "group": "whole groups of rows were split, so rows are not independent, which the test assumes",
    }.get(kind)


def check_groups(names: Sequence[str], members: np.ndarray, rows: Mapping[str, np.ndarray], smallest: int) -> list[str]:
    """Return notes on groups with fewer than a third of ``smallest`` rows in a split; none at all is an error.

    ``members`` are the groups of all rows, 1, 2, ... in the order of their names.
    """
    notes = []
    for split, chosen in rows.items():
        counts = np.bincount(members[chosen], minlength=len(names) + 1)[1:]
        for name, count in zip(names, counts.tolist()):
            if not count:
                raise DataError(
                    f"no row of the group {name!r} is in the {split} split",
                    fix="another seed=, other shares=, more rows of this group, or join it with another one",
                )
            if count < smallest / 3:
                notes.append(f"the group {name!r} has {count} rows in the {split} split: its rates there are chance")
    return notes


def check_classes(
    classes: Sequence[str], target: np.ndarray, groups: Sequence[str], members: np.ndarray, rows: Mapping[str, Any]
) -> list[str]:
    """Return notes on groups without a row of one of two classes in a split, and on classes with few rows there. A
    split without a row of a class is an error: it has no rate of errors for them."""
    notes, absent = [], {}
    for code, name in enumerate(classes if len(classes) == 2 else ()):
        for split, chosen in rows.items():
            inside = members[chosen][target[chosen] == code]
            if not len(inside):
                raise DataError(
                    f"no row of the class {name!r} is in the {split} split",
                    fix="another seed=, other shares=, or more rows of this class",
                )
            if len(inside) < FEW:
                notes.append(f"the class {name!r} has {len(inside)} rows in the {split} split: its rates are chance")
            for number, group in enumerate(groups, start=1):
                if not (inside == number).any():
                    absent.setdefault((group, name), []).append(split)
    return notes + [
        f"no row of the group {group!r} has the class {name!r} in {', '.join(found)}: gaps between rates of this class "
        "leave the group out there"
        for (group, name), found in absent.items()
    ]


def check_shares(shares: Mapping[str, float]) -> dict[str, float]:
    """Return the positive shares; ``train``, ``val`` and ``test`` need one, and they sum to 1."""
    total = sum(shares.values())
    fine = set(shares) <= set(SHARES) and all(shares.get(name, 0) > 0 for name in ("train", "val", "test"))
    if not fine or min(shares.values()) < 0 or not math.isclose(total, 1, abs_tol=1e-6):
        raise DataError(
            "these shares do not make splits",
            got=dict(shares),
            expected=f"positive shares that sum to 1, such as {SHARES}; calibration may be missing",
        )
    return {name: shares[name] for name in SHARES if shares.get(name, 0) > 0}


def _shuffled(count: int, seed: int) -> np.ndarray:
    generator = np.random.PCG64(np.random.SeedSequence((seed, OWN)))
    return np.argsort(generator.random_raw(count), kind="stable")


def _cut(order: np.ndarray, shares: Mapping[str, float]) -> dict[str, np.ndarray]:
    ends = np.round(np.cumsum([*shares.values()])[:-1] * len(order)).astype(int)
    return dict(zip(shares, np.split(order, ends)))


def _whole_groups(codes: np.ndarray, shares: Mapping[str, float], seed: int) -> dict[str, np.ndarray]:
    """Cut where the groups, in random order, fill the shares; each row without a group is a group of its own."""
    alone = codes < 0
    codes = np.where(alone, codes.max(initial=-1) + np.cumsum(alone), codes)
    order = _shuffled(int(codes.max()) + 1, seed)
    sizes = np.bincount(codes, minlength=len(order))[order]
    middle = (np.cumsum(sizes) - sizes / 2) / len(codes)
    part = np.searchsorted(np.cumsum([*shares.values()])[:-1], middle)
    of_group = np.empty(len(order), dtype=int)
    of_group[order] = part
    return {name: np.flatnonzero(of_group[codes] == place) for place, name in enumerate(shares)}


def _has_dates(values: np.ndarray) -> bool:
    return is_date(values) or (values.dtype == object and bool(numbers(values)[1]))
