"""Paired intervals: by how much one method is above another with the same seeds."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping
from typing import NamedTuple

from hyperfront.errors import HyperfrontError


class Paired(NamedTuple):
    """The mean difference over seeds, and the interval that covers the expected difference."""

    mean: float
    low: float
    high: float
    seeds: int

    @property
    def verdict(self) -> str:
        """``above`` or ``below`` where the interval has one sign, else ``open``."""
        return "above" if self.low > 0 else "below" if self.high < 0 else "open"

    def __str__(self) -> str:
        return f"{self.mean:+.4f} ({self.low:+.4f} to {self.high:+.4f}, {self.seeds} seeds, {self.verdict})"


def paired(ours: Mapping[int, float], theirs: Mapping[int, float], *, confidence: float = 0.95) -> Paired:
    """Compare two methods by the seeds that both have, with Student's t of the differences:

        mean +- t s / sqrt(n)

    >>> paired({0: 1.0, 1: 2.0, 2: 3.5}, {0: 0.5, 1: 1.5, 2: 2.5}).verdict
    'open'
    """
    from scipy.stats import t  # which only comparisons need

    differences = [ours[seed] - theirs[seed] for seed in sorted(ours.keys() & theirs.keys())]
    if len(differences) < 2:
        raise HyperfrontError(
            "an interval needs at least two seeds that both methods have",
            got=f"seeds {sorted(ours)} and {sorted(theirs)}",
        )
    mean, count = statistics.fmean(differences), len(differences)
    reach = float(t.ppf((1 + confidence) / 2, count - 1)) * statistics.stdev(differences) / math.sqrt(count)
    return Paired(mean, mean - reach, mean + reach, count)
