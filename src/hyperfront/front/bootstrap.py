"""Bounds by the bootstrap, for statistics without exact tests. They hold for many rows: answers call them asymptotic.

The bias-corrected and accelerated bound (Efron, 1987) of a statistic ``t`` of ``N`` rows, at level ``c``, is the
quantile of ``t`` over resamples of the rows at

    Phi(b + (b + z) / (1 - a (b + z))),    z = Phi^-1(c),

where ``Phi(b)`` is the share of resamples below the observed value and ``a`` a sixth of the skewness of the influences
of single rows. Its error falls as ``1 / N``, where that of a normal approximation falls as ``1 / sqrt(N)``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np
import torch
from scipy.special import ndtr, ndtri
from torch import Tensor

RESAMPLES = 2000
CELLS = 2**23
"""The most counts, of a row in a resample, that are held at once."""


@dataclass(frozen=True, eq=False)
class Bootstrap:
    """The observed value of a statistic, its values over resamples, sorted, and the two constants of the bound."""

    observed: float
    resampled: np.ndarray
    bias: float
    acceleration: float

    @classmethod
    def of(cls, observed: Tensor, resampled: Tensor, without: Tensor | None) -> Self:
        """From the values over resamples ``[S]`` and, if known, the values without each of the rows ``[N]``."""
        values, own = np.sort(resampled.double().numpy()), float(observed)
        below = ((values < own).sum() + (values == own).sum() / 2) / len(values)
        influence = np.zeros(1) if without is None else (without.mean() - without).double().numpy()
        scale = (influence**2).sum() ** 1.5
        acceleration = float((influence**3).sum() / (6 * scale)) if scale > 0 else 0.0
        return cls(own, values, float(ndtri(below.clip(1 / len(values), 1 - 1 / len(values)))), acceleration)

    @property
    def error(self) -> float:
        """The standard error."""
        return float(self.resampled.std())

    def bound(self, sign: str, level: float) -> float:
        """The upper bound (``<=``) or lower bound (``>=``) of the population's value, which holds at that level.

        It is infinite if all resamples are equal or some have no value: too few rows say nothing.
        """
        worst = np.inf if sign == "<=" else -np.inf
        if not np.isfinite(self.resampled).all() or self.resampled[0] == self.resampled[-1]:
            return worst
        moved = self.bias + (ndtri(level) if sign == "<=" else ndtri(1 - level))
        if self.acceleration * moved >= 1:
            return worst
        return float(np.quantile(self.resampled, ndtr(self.bias + moved / (1 - self.acceleration * moved))))


def sums(each: Tensor, resamples: int = RESAMPLES) -> Tensor:
    """The sums of the rows ``each [N, ...]`` over resamples of the rows, ``[S, ...]`` in float64, with a fixed seed.

    Rows are drawn for as many resamples at once as :data:`CELLS` allows: the counts of all would need gigabytes.
    """
    rows, generator = len(each), torch.Generator().manual_seed(0)
    flat = each.double().reshape(rows, -1)
    together = max(1, CELLS // max(1, rows))
    parts = []
    for start in range(0, resamples, together):
        drawn = torch.randint(rows, (min(together, resamples - start), rows), generator=generator)
        counts = torch.zeros(drawn.shape, dtype=torch.float64)
        parts.append(counts.scatter_add_(1, drawn, counts.new_ones(1, 1).expand_as(drawn)) @ flat)
    return torch.cat(parts).reshape(resamples, *each.shape[1:])
