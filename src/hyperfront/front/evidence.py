"""Evidence: how far the rows of a sample show that the population's value of a loss or score keeps a limit.

=========================================== ======================================================= ==============
loss or score                               test                                                    method
=========================================== ======================================================= ==============
mean of 0 and 1 over rows, with bounds      binomial                                                exact
other mean over rows, with bounds           Hoeffding-Bentkus, or betting where rows vary little    exact
:class:`~hyperfront.Gap`, with bounds       two one-sided tests for each pair of groups             exact
everything else                             bootstrap                                               asymptotic
=========================================== ======================================================= ==============

A limit on a gap holds if no signed difference of two groups exceeds it. Each difference is tested at the full level,
and all must pass: to pass wrongly, the test of the one that exceeds the limit must fail (Berger, 1982). A limit from
below holds if any difference exceeds it, so the differences share the level.
"""

from __future__ import annotations

import itertools
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal, Self

import numpy as np
from scipy.special import ndtri

from hyperfront.front import betting, exact
from hyperfront.front.bootstrap import Bootstrap

Method = Literal["exact", "asymptotic"]
Test = Literal["binomial", "hoeffding-bentkus", "betting"]
STEPS = 30
"""Halvings in the search of a bound."""


class Evidence(ABC):
    """A sample of one loss or score, in the units of its function."""

    method: ClassVar[Method]

    @property
    @abstractmethod
    def value(self) -> float:
        """The value of the sample."""

    @property
    @abstractmethod
    def rows(self) -> int:
        """The number of rows."""

    @abstractmethod
    def passes(self, sign: str, limit: float, level: float) -> bool:
        """Whether "the population's value is beyond the limit" is rejected, with an error probability of ``level``."""

    @abstractmethod
    def bound(self, sign: str, level: float) -> float:
        """The tightest limit that passes: the population's value keeps it with probability ``1 - level``."""

    @property
    @abstractmethod
    def error(self) -> float:
        """The standard error of the value."""

    def chosen(self) -> Evidence:
        """The evidence with the test that fits its rows. A test chosen by other rows stays exact."""
        return self

    def tested_as(self, other: Evidence) -> Evidence:
        """The evidence with the test of ``other``."""
        return self

    def ahead(self, sign: str, limit: float, level: float, rows: int) -> tuple[float, Method]:
        """The limit for the population with which ``rows`` new rows keep ``limit`` with probability ``1 - level``."""
        margin = -float(ndtri(level)) * self.error * (self.rows / rows) ** 0.5
        return (limit - margin if sign == "<=" else limit + margin), "asymptotic"


@dataclass(frozen=True, eq=False)
class Bounded(Evidence):
    """Values ``[N]`` within ``bounds``, and one of the exact tests."""

    values: np.ndarray
    bounds: tuple[float, float]
    test: Test
    method: ClassVar[Method] = "exact"

    @property
    def rows(self) -> int:
        return len(self.values)

    def tested_as(self, other: Evidence) -> Self:
        return replace(self, test=other.test) if isinstance(other, type(self)) else self


@dataclass(frozen=True, eq=False)
class BoundedMean(Bounded):
    """The mean of bounded values.

    The binomial test rounds values between the bounds to the worse bound, so that it is valid for all values.
    """

    @property
    def value(self) -> float:
        return float(self.values.mean())

    @property
    def error(self) -> float:
        return float(self.values.std() / len(self.values) ** 0.5)

    def _shares(self, sign: str, values: Any) -> Any:
        """Scale values to shares of the range between the bounds, with 0 at the end that keeps every limit."""
        low, high = self.bounds
        share = (values - low) / (high - low)
        return share if sign == "<=" else 1 - share

    def passes(self, sign: str, limit: float, level: float) -> bool:
        shares, share = self._shares(sign, self.values), self._shares(sign, limit)
        if share >= 1:
            return True
        if self.test == "binomial":
            return exact.binomial(int((shares > 0).sum()), self.rows, share) <= level
        if self.test == "betting":
            return betting.mean(shares, share, level)
        return exact.hoeffding_bentkus(float(shares.mean()), self.rows, share) <= level

    def bound(self, sign: str, level: float) -> float:
        return tightest(lambda limit: self.passes(sign, limit, level), sign, *self.bounds)

    def ahead(self, sign: str, limit: float, level: float, rows: int) -> tuple[float, Method]:
        low, high = self.bounds
        share = exact.future(self._shares(sign, limit), rows, level, ones=self.test == "binomial")
        return low + (high - low) * (share if sign == "<=" else 1 - share), "exact"

    def chosen(self) -> BoundedMean:
        """The same values with the test that gives the tightest bounds, to be used on other rows."""
        if zero_or_one(self.values, self.bounds):
            return replace(self, test="binomial")
        width = {test: replace(self, test=test).bound("<=", 0.05) for test in ("hoeffding-bentkus", "betting")}
        return replace(self, test="betting" if width["betting"] <= width["hoeffding-bentkus"] else "hoeffding-bentkus")


@dataclass(frozen=True, eq=False)
class BoundedGap(Bounded):
    """The gap between groups of bounded values.

    The binomial test of a difference rounds values between the bounds to the worse bound; betting does not.
    """

    members: np.ndarray
    """The rows of each group, ``[K, N]``."""

    @property
    def value(self) -> float:
        known = [self.values[group].mean() for group in self.members if group.any()]
        return float(max(known) - min(known)) if len(known) > 1 else 0.0

    @property
    def error(self) -> float:
        """The largest standard error of a difference."""
        each = [self.values[group].var() / max(1, group.sum()) for group in self.members]
        return float(sum(sorted(each)[-2:]) ** 0.5)

    def passes(self, sign: str, limit: float, level: float) -> bool:
        low, high = self.bounds
        share, shares = limit / (high - low), (self.values - low) / (high - low)
        if sign == "<=":
            pairs = itertools.permutations([shares[group] for group in self.members], 2)
            return limit >= 0 and (share >= 1 or all(self._below(*pair, share, level) for pair in pairs))
        pairs = [*itertools.permutations([1 - shares[group] for group in self.members], 2)]
        return limit <= 0 or any(self._below(*pair, -share, level / len(pairs)) for pair in pairs)

    def _below(self, first: np.ndarray, second: np.ndarray, limit: float, level: float) -> bool:
        """Whether "the difference of the two means is at least ``limit``" is rejected."""
        if self.test == "betting":
            return betting.difference(first, second, limit, level)
        ones = (int((first > 0).sum()), len(first)), (int((second == 1).sum()), len(second))
        return exact.difference(*ones, limit, level)

    def bound(self, sign: str, level: float) -> float:
        low, high = self.bounds
        return tightest(lambda limit: self.passes(sign, limit, level), sign, 0.0, high - low, steps=12)

    def chosen(self) -> BoundedGap:
        """The same values with the test that fits them, to be used on other rows."""
        return replace(self, test="binomial" if zero_or_one(self.values, self.bounds) else "betting")


@dataclass(frozen=True, eq=False)
class Resampled(Evidence):
    """A value with the bootstrap of each of its ``parts``: the largest absolute value of the parts if it is
    ``absolute``, as for a gap, and otherwise its single part."""

    observed: float
    count: int
    parts: tuple[Bootstrap, ...]
    absolute: bool = False
    method: ClassVar[Method] = "asymptotic"

    @property
    def rows(self) -> int:
        return self.count

    @property
    def value(self) -> float:
        return self.observed

    @property
    def error(self) -> float:
        return max(part.error for part in self.parts)

    def passes(self, sign: str, limit: float, level: float) -> bool:
        bound = self.bound(sign, level)
        return bound <= limit if sign == "<=" else bound >= limit

    def bound(self, sign: str, level: float) -> float:
        if not self.absolute:
            return self.parts[0].bound(sign, 1 - level)
        if sign == "<=":
            return max(max(part.bound("<=", 1 - level), -part.bound(">=", 1 - level)) for part in self.parts)
        shared = 1 - level / (2 * len(self.parts))
        return max(0.0, *(max(part.bound(">=", shared), -part.bound("<=", shared)) for part in self.parts))


def tightest(holds: Callable[[float], bool], sign: str, low: float, high: float, *, steps: int = STEPS) -> float:
    """Find the tightest limit between the ends that holds, by bisection; the loose end holds without a test."""
    loose, tight = (high, low) if sign == "<=" else (low, high)
    for _ in range(steps):
        middle = (loose + tight) / 2
        loose, tight = (middle, tight) if holds(middle) else (loose, middle)
    return loose


def zero_or_one(values: np.ndarray, bounds: tuple[float, float]) -> bool:
    """Whether every value equals one of the bounds."""
    return bool(np.isin(values, bounds).all())


@dataclass(frozen=True)
class Scale:
    """The units of a loss on a front: ``(value - ideal) * slope``."""

    ideal: float = 0.0
    slope: float = 1.0

    def shown(self, value: float) -> float:
        return (value - self.ideal) * self.slope

    def raw(self, sign: str, limit: float) -> tuple[str, float]:
        """A limit on the front as a limit of the function."""
        turned: Mapping[str, str] = {"<=": ">=", ">=": "<="}
        return (sign if self.slope > 0 else turned[sign]), limit / self.slope + self.ideal
