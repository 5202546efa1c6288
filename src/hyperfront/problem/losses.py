"""Measures: each loss or score declares how it is evaluated over a whole split.

A measure has additive *statistics* of a batch and a *value* of their sum:

======================= =========================================== ==========================================
:class:`Mean`           ``f(output, batch) -> scalar``              mean over batches, weighted by rows
:class:`SetLoss`        additive statistics, and their value        group gaps, pixels with ignored labels
:class:`Gathered`       ``f(outputs, batches) -> scalar``           measures of all outputs at once (AUC)
======================= =========================================== ==========================================

A plain function is a mean.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from hyperfront.errors import LossError
from hyperfront.errors.signatures import checked
from hyperfront.storage.batches import Batch, rows
from hyperfront.storage.containers import PLAIN, how_to_register
from hyperfront.storage.nests import map_leaves, map_tensors, tensors


class Measure(ABC):
    """A loss or score of a set of rows."""

    @property
    def additive(self) -> bool:
        """Whether statistics are sums; sums are kept in float64."""
        return True

    @abstractmethod
    def statistics(self, output: Any, batch: Batch) -> Any:
        """Compute the statistics of one batch."""

    @abstractmethod
    def value(self, statistics: Any) -> Tensor:
        """Compute the loss from merged statistics."""

    def merge(self, first: Any, second: Any) -> Any:
        """Merge the statistics of two batches."""
        return map_tensors(torch.add, first, second)

    def __call__(self, output: Any, batch: Batch) -> Tensor:
        """Compute the loss of one batch, as training does."""
        return self.value(self.statistics(output, batch))


@checked
@dataclass(frozen=True)
class Mean(Measure):
    """A function that averages over rows, such as a cross entropy."""

    function: Callable[[Any, Batch], Tensor]
    rows: Callable[[Batch], int | Tensor] = rows
    """Counts the rows of a batch."""

    def statistics(self, output: Any, batch: Batch) -> Any:
        value, count = self.function(output, batch).double(), self.rows(batch)
        return value * count, torch.ones_like(value) * count

    def value(self, statistics: Any) -> Tensor:
        return statistics[0] / statistics[1]

    def __call__(self, output: Any, batch: Batch) -> Tensor:
        return self.function(output, batch)


@checked
@dataclass(frozen=True)
class SetLoss(Measure):
    """A function of additive statistics: ``value_of(statistics_of(output, batch))``.

    >>> gap = SetLoss(lambda out, y: torch.stack([out[y == 1].sum(), (y == 1).sum()]), lambda s: s[0] / s[1])
    >>> first, second = (torch.tensor([1.0, 5.0]), torch.tensor([1, 0])), (torch.tensor([3.0]), torch.tensor([1]))
    >>> gap.value(gap.merge(gap.statistics(*first), gap.statistics(*second)))
    tensor(2.)
    """

    statistics_of: Callable[[Any, Batch], Any]
    value_of: Callable[[Any], Tensor]

    def statistics(self, output: Any, batch: Batch) -> Any:
        return map_leaves(_summand, self.statistics_of(output, batch))

    def value(self, statistics: Any) -> Tensor:
        return self.value_of(statistics)


@checked
@dataclass(frozen=True)
class Gathered(Measure):
    """A function of all outputs and the whole split at once; the outputs of every ray are kept in memory."""

    function: Callable[[Any, Batch], Tensor]

    @property
    def additive(self) -> bool:
        return False

    def statistics(self, output: Any, batch: Batch) -> Any:
        return output, batch

    def merge(self, first: Any, second: Any) -> Any:
        return map_leaves(_joined, first, second, is_leaf=_is_list_of_rows)

    def value(self, statistics: Any) -> Tensor:
        return self.function(*statistics)


def _summand(leaf: Any) -> Tensor:
    """Convert a number or tensor of the statistics to a tensor, so that statistics can be added."""
    if isinstance(leaf, bool | int | float):
        return torch.tensor(float(leaf), dtype=torch.float64)
    if not isinstance(leaf, Tensor):
        raise LossError(
            "the statistics of a SetLoss cannot be added", got=type(leaf).__name__, expected="tensors or numbers"
        )
    return leaf


def _joined(first: Any, second: Any) -> Any:
    """Concatenate the rows of two leaves. In a list without tensors, each item is a row."""
    if isinstance(first, Tensor):
        return torch.cat([first, second]) if first.ndim else first
    if isinstance(first, list):
        return first + second
    if isinstance(first, PLAIN):
        return first
    kind = type(first).__name__
    raise LossError(f"a {kind} cannot be gathered over batches", fix=f"make its type known: {how_to_register(kind)}")


def _is_list_of_rows(nest: Any) -> bool:
    return isinstance(nest, list) and not tensors(nest)


def as_measure(
    measure: Measure | Callable[[Any, Batch], Tensor], count: Callable[[Batch], int | Tensor] = rows
) -> Measure:
    """Return a measure unchanged; make a mean of a function over the rows that ``count`` counts."""
    return measure if isinstance(measure, Measure) else Mean(measure, count)
