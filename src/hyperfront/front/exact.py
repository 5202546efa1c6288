"""Exact tests of means and of differences of means, for quantities between 0 and 1.

Each function returns whether, or with which p-value, a null hypothesis "the population value is beyond the limit" is
rejected. Its error probability is at most the level for every population and every number of rows, without asymptotics.

==================== ========================================= ====================================================
quantity             test                                      reference
==================== ========================================= ====================================================
mean of 0 and 1      binomial, ``P(Bin(n, L) <= k)``           Clopper & Pearson, 1934
mean within [0, 1]   Hoeffding-Bentkus                         Bates et al., 2021; Angelopoulos et al., 2021
difference of means  unconditional, over the whole nuisance    Barnard, 1947; Berger & Boos, 1994
==================== ========================================= ====================================================
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from scipy.special import bdtr, bdtrc, betaincinv, xlogy

NUISANCE = 0.02
"""Share of the level for the confidence interval of the nuisance parameter (Berger & Boos)."""
FINEST = 1e-5
"""Cells of the nuisance parameter are not halved below this width: then the test does not reject."""
OUTSIDE = 1e-9
"""Probability of the outcomes that are not enumerated. It is added to every p-value."""


def binomial(ones: int, rows: int, limit: float) -> float:
    """The p-value of "the mean is at least ``limit``" for ``rows`` values of 0 and 1, ``ones`` of them 1.

    >>> round(binomial(0, 59, 0.05), 4)
    0.0485
    """
    return 1.0 if rows == 0 or limit <= 0 else 0.0 if limit > 1 else float(bdtr(ones, rows, limit))


def hoeffding_bentkus(mean: float, rows: int, limit: float) -> float:
    """The p-value of "the mean is at least ``limit``" for ``rows`` values within [0, 1].

    The smaller of Hoeffding's ``exp(-n kl(min(mean, L), L))`` and Bentkus's ``e P(Bin(n, L) <= ceil(n mean))``; both
    bound the same tail, which is a function of the mean alone, so that their minimum is a p-value.
    """
    if rows == 0 or limit <= 0 or limit > 1:
        return 1.0 if limit <= 1 else 0.0
    low = min(mean, limit)
    divergence = float(xlogy(low, low / limit) + (xlogy(1 - low, (1 - low) / (1 - limit)) if limit < 1 else 0))
    if limit == 1 and mean < 1:
        return 0.0 if mean < 1 - 1e-12 else 1.0
    bentkus = math.e * float(bdtr(math.ceil(rows * mean - 1e-9), rows, limit))
    return min(1.0, math.exp(-rows * divergence), bentkus)


def future(limit: float, rows: int, level: float, *, ones: bool) -> float:
    """The largest population mean whose sample of ``rows`` rows exceeds ``limit`` with probability at most ``level``.

    With ``ones``, values are 0 and 1 and the number is exact; else it is Hoeffding's ``exp(-n kl(limit, mean))``.
    """

    def safe(mean: float) -> bool:
        if ones:
            return float(bdtrc(math.floor(rows * limit + 1e-9), rows, mean)) <= level
        divergence = xlogy(limit, limit / mean) + xlogy(1 - limit, (1 - limit) / (1 - mean))
        return mean < limit and math.exp(-rows * float(divergence)) <= level

    return 0.0 if limit < 0 else 1.0 if limit >= 1 else _largest(safe, 0.0, 1.0)


def _largest(holds: Callable[[float], bool], low: float, high: float) -> float:
    """The largest number between ``low`` and ``high`` at which a condition holds, which fails above that number."""
    for _ in range(50):
        middle = (low + high) / 2
        low, high = (middle, high) if holds(middle) else (low, middle)
    return low


def difference(first: tuple[int, int], second: tuple[int, int], limit: float, level: float) -> bool:
    """Whether "the difference ``p - q`` of two means is at least ``limit``" is rejected at ``level``.

    ``first`` and ``second`` are pairs of ones and rows. Samples are ordered by the likelihood ratio statistic for
    ``p - q = limit``. It falls with the ones of the first group and rises with those of the second (by the envelope
    theorem), so the region ``C`` of samples at least as extreme as the observed one is ``{(x, y): x <= c(y)}`` with a
    rising ``c``, and its probability falls with ``p`` and rises with ``q``. Hence, for all ``q`` in a cell ``[a, b]``,

        P(C; q + limit, q)  <=  P(C; a + limit, b).

    Cells cover a confidence interval of ``q``, whose error is part of the level; they are halved until all bounds are
    below the rest of the level, or the probability inside one is above it.
    """
    (x, n), (y, k) = first, second
    low, high = max(0.0, -limit), min(1.0, 1.0 - limit)
    if low > high:
        return limit > 1  # no difference is above 1, and all are at least -1
    if not n or not k or x / n - y / k >= limit:
        return False
    error = NUISANCE * level
    start = max(low, float(betaincinv(y, k - y + 1, error / 2)) if y else 0.0)
    end = min(high, float(betaincinv(y + 1, k - y, 1 - error / 2)) if y < k else 1.0)
    if start > end:
        return True  # every mean of the interval is far from the null hypothesis
    window, mass = _window(k, start, end)
    bound = _boundary((x, n), (y, k), window, limit)
    allowed = level - error - mass

    def probability(p: np.ndarray, q: np.ndarray) -> np.ndarray:
        """``P(x <= c(y))`` for pairs of means."""
        heights = np.where(bound >= 0, bdtr(np.maximum(bound, 0), n, np.clip(p, 0, 1)[:, None]), 0.0)
        return (_masses(window, k, q) * heights).sum(axis=1)

    return _below(probability, start, end, limit, allowed)


def _below(
    probability: Callable[[np.ndarray, np.ndarray], np.ndarray], start: float, end: float, limit: float, allowed: float
) -> bool:
    """Whether ``probability(q + limit, q) <= allowed`` for all ``q`` in the interval, by branch and bound."""
    edges = np.linspace(start, end, 7)
    cells = np.stack([edges[:-1], edges[1:]], axis=1)
    while True:
        bounds = probability(cells[:, 0] + limit, cells[:, 1])
        worst = cells[bounds.argmax()].mean(keepdims=True)
        cells = cells[bounds > allowed]
        if not len(cells):
            return True
        middle = cells.mean(axis=1)
        if (cells[:, 1] - cells[:, 0]).max() < FINEST or (probability(worst + limit, worst) > allowed).any():
            return False
        cells = np.concatenate([np.stack([cells[:, 0], middle], 1), np.stack([middle, cells[:, 1]], 1)])


def _window(rows: int, start: float, end: float) -> tuple[np.ndarray, float]:
    """Numbers of ones that have nearly all the probability for every mean in the interval, and a bound of the rest."""
    low, high = (
        mean * rows + side * (6.5 * math.sqrt(rows * mean * (1 - mean)) + 8) for mean, side in ((start, -1), (end, 1))
    )
    window = np.arange(max(0, math.floor(low)), min(rows, math.ceil(high)) + 1)
    below = float(bdtr(window[0] - 1, rows, start)) if window[0] > 0 else 0.0
    above = float(bdtrc(window[-1], rows, end)) if window[-1] < rows else 0.0
    return window, below + above + OUTSIDE


def _masses(window: np.ndarray, rows: int, means: np.ndarray) -> np.ndarray:
    """Binomial probabilities of the numbers in the window, for each mean."""
    with np.errstate(divide="ignore"):
        tops = bdtr(window, rows, means[:, None])
    under = bdtr(window[0] - 1, rows, means) if window[0] > 0 else np.zeros(len(means))
    return np.diff(tops, axis=1, prepend=under[:, None]).clip(min=0)


def _boundary(first: tuple[int, int], second: tuple[int, int], window: np.ndarray, limit: float) -> np.ndarray:
    """For each number ``y`` of ones in the window, find the largest ``x`` at least as extreme as the observed sample,
    or -1."""
    (x, n), (y, k) = first, second
    observed = _ratio(np.array([x]), n, np.array([y]), k, limit)[0]
    low, high = np.full(len(window), -1), np.full(len(window), n)
    while (low < high).any():
        middle = (low + high + 1) // 2
        extreme = _ratio(np.maximum(middle, 0), n, window, k, limit) >= observed - 1e-4
        low, high = np.where(extreme, middle, low), np.where(extreme, high, middle - 1)
    return low


def _ratio(x: np.ndarray, n: int, y: np.ndarray, k: int, limit: float) -> np.ndarray:
    """The likelihood ratio statistic for ``p - q = limit``, with the sign of ``limit - (x / n - y / k)``."""
    with np.errstate(divide="ignore", invalid="ignore"):
        null = _constrained(x, n, y, k, limit)
        p, q = x / n, y / k
        likely = _likelihood(x, n, p) + _likelihood(y, k, q)
        under = _likelihood(x, n, np.clip(null + limit, 0, 1)) + _likelihood(y, k, null)
    return np.sign(limit - (p - q)) * 2 * (likely - under)


def _constrained(x: np.ndarray, n: int, y: np.ndarray, k: int, limit: float) -> np.ndarray:
    """The most likely ``q`` with ``p = q + limit``.

    The derivative of the log likelihood, times ``q (1 - q) p (1 - p)``, is a cubic with three real roots, of which the
    middle one is the maximum. (Farrington & Manning, 1990.)
    """
    a, c = n + k, limit * (1 - limit)
    square = -(x - n * limit + n + y + k * (1 - 2 * limit)) / a
    linear = (x - n * limit + y * (1 - 2 * limit) - k * c) / a
    constant = y * c / a
    shift = square / 3
    radius = np.sqrt(np.maximum(shift**2 - linear / 3, 1e-300))
    cosine = (-2 * shift**3 + shift * linear - constant) / (2 * radius**3)
    root = 2 * radius * np.cos((np.arccos(cosine.clip(-1, 1)) - 2 * math.pi) / 3) - shift
    return root.clip(max(0.0, -limit), min(1.0, 1.0 - limit))


def _likelihood(ones: np.ndarray, rows: int, mean: np.ndarray) -> np.ndarray:
    return xlogy(ones, mean) + xlogy(rows - ones, 1 - mean)
