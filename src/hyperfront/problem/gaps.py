"""Gaps between groups: the largest difference of a mean between any two groups of rows.

With ``v_i`` the quantity of row ``i`` and ``A_k`` the rows of group ``k`` that count,

    mean_k = sum of v_i over A_k / |A_k|,        gap = max over pairs |mean_k - mean_l|.

A group without rows has no mean and is left out; with fewer than two groups the gap is 0, without gradient.

Sums use masks instead of selected rows: shapes are fixed for ``vmap`` and CUDA graphs, and no value is read from a GPU.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from hyperfront.errors import ProblemError, check_number
from hyperfront.errors.signatures import checked
from hyperfront.problem.losses import Measure
from hyperfront.storage.batches import Batch

MOST = 1000
"""The most groups whose pairs are listed."""


@checked
@dataclass(frozen=True)
class Gap(Measure):
    """The largest difference of the mean of ``quantity`` between two groups.

    >>> gap = Gap(lambda output, batch: output > 0, lambda batch: torch.stack([batch == k for k in (0, 1)]))
    >>> gap(torch.tensor([1.0, -1.0, 1.0]), torch.tensor([0, 0, 1]))
    tensor(0.5000)
    """

    quantity: Callable[[Any, Batch], Tensor]
    """The quantity ``[B]`` of every row, such as a decision, an error or a probability."""
    members: Callable[[Batch], Tensor]
    """The rows of every group, ``[K, B]`` in bool. For a gap in false positives: members of the group with label 0."""

    def statistics(self, output: Any, batch: Batch) -> Tensor:
        """Sums of the quantity and numbers of rows, ``[2, K]``."""
        quantity = self.quantity(output, batch)
        quantity = quantity if quantity.dtype in (torch.float32, torch.float64) else quantity.float()
        members = self.members(batch).to(quantity)
        return torch.stack([(quantity * members).sum(-1), members.sum(-1)])

    def value(self, statistics: Tensor) -> Tensor:
        means, known = self.means(statistics)
        largest = torch.where(known, means, -math.inf).amax(-1)
        smallest = torch.where(known, means, math.inf).amin(-1)
        return torch.where(known.sum(-1) > 1, largest - smallest, 0)

    def means(self, statistics: Tensor) -> tuple[Tensor, Tensor]:
        """The mean of each group ``[..., K]``, and whether it has rows."""
        sums, counts = statistics.unbind(-2)
        return sums / counts.clamp_min(1), counts > 0

    def differences(self, statistics: Tensor) -> Tensor:
        """The signed differences ``[..., P]`` of the means of all pairs of groups, in the order of :meth:`pairs`; 0 for
        a group without rows. The gap is the largest absolute value."""
        means, known = self.means(statistics)
        each = [
            (means[..., k] - means[..., l]) * (known[..., k] & known[..., l]) for k, l in self.pairs(means.shape[-1])
        ]
        return torch.stack(each, dim=-1)

    @staticmethod
    @checked
    def pairs(groups: int) -> list[tuple[int, int]]:
        """All pairs of groups, by number."""
        check_number("number of groups", groups, 0, MOST, whole=True, error=ProblemError)
        return [*itertools.combinations(range(groups), 2)]
