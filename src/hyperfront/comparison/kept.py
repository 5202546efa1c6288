"""Measures of a front that no method can gain from by accident: of the points that validation data would keep.

``kept hypervolume`` is the primary measure: a user keeps the points that no other point dominates on validation data,
and their test losses count. The pooled hypervolume takes the best test points of all rays; models that err in different
ways gain from that, though nobody knows these points before testing.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from torch import Tensor

from hyperfront import indicators


class Measured(NamedTuple):
    """The measures of one run on test data."""

    kept: float
    """Hypervolume of the test losses of the points that are non-dominated on validation data."""
    pooled: float
    """Hypervolume of all test losses."""
    single: float
    """Mean hypervolume of single points."""
    points: int
    """Number of different points that are non-dominated on test data."""


def measured(val: Tensor, test: Tensor, reference: Sequence[float]) -> Measured:
    """Measure losses ``[R, m]`` on validation and test data of points at the same rays.

    >>> import torch
    >>> val, test = torch.tensor([[1.0, 3.0], [3.0, 1.0], [3.0, 3.0]]), torch.tensor([[2.0, 3], [3, 2], [1, 1]])
    >>> measured(val, test, (4, 4))
    Measured(kept=3.0, pooled=9.0, single=4.333333333333333, points=1)
    """
    point = tuple(reference)
    volumes = [indicators.hypervolume(row[None], point) for row in test]
    return Measured(
        kept=indicators.hypervolume(test[indicators.nondominated(val)], point),
        pooled=indicators.hypervolume(test, point),
        single=sum(volumes) / len(volumes),
        points=round(indicators.nondominated_share(test) * len(test)),
    )
