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


def counts(rows: int, resamples: int = RESAMPLES) -> Tensor:
    """Count the occurrences of each row in each resample, ``[S, N]`` in float64, with a fixed seed."""
    drawn = torch.randint(rows, (resamples, rows), generator=torch.Generator().manual_seed(0))
    return torch.zeros(resamples, rows, dtype=torch.float64).scatter_add_(
        1, drawn, torch.ones(1, 1).double().expand_as(drawn)
    )
