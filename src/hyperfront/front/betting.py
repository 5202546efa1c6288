"""Exact tests by betting, for bounded quantities whose rows vary less than 0 and 1 do.

A gambler who starts with 1 bets on independent values ``D_t >= -c`` with means of at most 0,

    K_t = K_(t-1) (1 + a_t D_t),    0 <= a_t < 1 / c,    a_t a function of the values before ``t``.

The expected capital never grows, so by Ville's inequality it ever reaches ``1 / level`` with a probability of at most
``level`` (Waudby-Smith & Ramdas, 2024). The stake that wins fastest is ``a_t = sqrt(2 ln(1 / level) / (n s_t^2))`` with
the variance ``s_t^2`` of the values before ``t``. Then limits about ``sqrt(2 ln(1 / level))`` standard errors from the
mean pass: 2.4 at the level .05, where a normal approximation has 1.6.
"""

from __future__ import annotations

import math

import numpy as np

BOLDEST = 0.75
"""The largest stake, as a part of ``1 / c``."""


def rejected(values: np.ndarray, least: float, level: float) -> bool:
    """Whether "the means of the values are at most 0" is rejected; no value is below ``-least``."""
    count = len(values)
    if not count or least <= 0:
        return bool(count)
    before = np.arange(count)
    means = (np.cumsum(values) - values + least) / (before + 1)
    squares = np.cumsum((values - means) ** 2)
    variance = (squares - (values - means) ** 2 + least**2 / 4) / (before + 1)
    stakes = np.minimum(np.sqrt(2 * math.log(1 / level) / (count * np.maximum(variance, 1e-12))), BOLDEST / least)
    return bool(np.log1p(stakes * values).cumsum().max() >= math.log(1 / level))


def mean(shares: np.ndarray, limit: float, level: float) -> bool:
    """Whether "the mean is at least ``limit``" is rejected, for values within [0, 1]."""
    return rejected(limit - shares, 1 - limit, level)


def difference(first: np.ndarray, second: np.ndarray, limit: float, level: float) -> bool:
    """Whether "the difference of two means is at least ``limit``" is rejected, for values within [0, 1].

    Both groups are cut into as many parts as the smaller one has rows, and the differences of the parts are bet on.
    """
    parts = min(len(first), len(second))
    if not parts:
        return False
    return rejected(_means(second, parts) - _means(first, parts) + limit, 1 - limit, level)


def _means(values: np.ndarray, parts: int) -> np.ndarray:
    """The means of ``parts`` consecutive parts of nearly equal size."""
    edges = np.linspace(0, len(values), parts + 1).astype(int)
    return np.add.reduceat(values, edges[:-1]) / np.diff(edges)
