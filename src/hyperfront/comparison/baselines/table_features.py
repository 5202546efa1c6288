"""Features of a table for classifiers of scikit-learn: the same columns that a network gets."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from hyperfront.errors import ProblemError
from hyperfront.problem import Problem
from hyperfront.problem.sources import TensorSource

MOST = 254
"""The most categories of a column that scikit-learn's boosting takes as categories."""


@dataclass(frozen=True)
class Features:
    """Turns ``numbers [B, k]`` (NaN where missing) and ``categories [B, c]`` into features ``[B, w]``.

    As codes, for trees, columns stay as they are. Otherwise numbers are standardized by the training rows, a missing
    number is 0 with a column that says so, and a category is a column of zeros with a one.
    """

    mean: np.ndarray
    scale: np.ndarray
    gaps: np.ndarray
    known: tuple[np.ndarray, ...]
    """The categories of the training rows, by column; others have no column."""
    codes: bool

    @classmethod
    def of(cls, numbers: Tensor, categories: Tensor, *, codes: bool) -> Features:
        """Measure the training rows."""
        found = numbers.numpy().astype(np.float64)
        there = np.isfinite(found)
        count = np.maximum(there.sum(0), 1)
        mean = np.where(there, found, 0).sum(0) / count
        scale = np.sqrt((np.where(there, found - mean, 0) ** 2).sum(0) / count)
        known = tuple(np.unique(column) for column in categories.numpy().T)
        return cls(mean, np.where(scale > 0, scale, 1), np.flatnonzero(~there.all(0)), known, codes)

    @property
    def coded(self) -> list[int]:
        """The columns of categories among the features of :attr:`codes`."""
        return [len(self.mean) + place for place, values in enumerate(self.known) if len(values) <= MOST]

    def __call__(self, numbers: Tensor, categories: Tensor) -> np.ndarray:
        found = numbers.numpy().astype(np.float64)
        codes = categories.numpy()
        if self.codes:
            places = [np.searchsorted(values, column) for values, column in zip(self.known, codes.T)]
            seen = [
                np.where(values[np.minimum(place, len(values) - 1)] == column, place, np.nan)
                for values, column, place in zip(self.known, codes.T, places)
            ]
            return np.column_stack([found, *seen])
        missing = ~np.isfinite(found)
        standard = np.where(missing, 0, (found - self.mean) / self.scale)
        ones = [(column[:, None] == values).astype(np.float64) for values, column in zip(self.known, codes.T)]
        return np.concatenate([standard, missing[:, self.gaps].astype(np.float64), *ones], axis=1)


def rows_of(problem: Problem) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """The training rows ``(numbers, categories, label, group)`` of a table with two classes and groups."""
    source = problem.train.source
    data = source.data if isinstance(source, TensorSource) else None
    good = isinstance(data, tuple) and len(data) == 4 and all(isinstance(each, Tensor) for each in data)
    if good:
        numbers, categories, label, group = data
        good = numbers.ndim == categories.ndim == 2 and label.ndim == group.ndim == 1
        good = good and bool(((label == 0) | (label == 1)).all()) and len(torch.unique(group)) > 1
    if not good:
        raise ProblemError(
            "the methods of fairlearn need a table with two classes and groups",
            got=problem.name,
            expected="tabular.problem(data, target, sensitive=column), or adult, default, bank, acs",
            fix="leave the methods of fairlearn out",
        )
    return tuple(each.cpu() for each in data)  # pyrefly: ignore
