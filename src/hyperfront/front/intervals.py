"""Intervals: how far the population's losses and scores may be from those of a sample of rows.

Both ends of an interval are one-sided bounds at ``(1 - confidence) / 2``, by the tests of
:mod:`hyperfront.front.evidence`: the binomial test (Clopper-Pearson) for means of 0 and 1, Hoeffding-Bentkus for other
means with bounds, two-sample tests for gaps with bounds, and for everything else a bootstrap, which is asymptotic.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from torch import Tensor

from hyperfront import preferences
from hyperfront.errors import ProblemError, SelectionError, check_number
from hyperfront.errors.signatures import checked
from hyperfront.front.evidence import Bounded, BoundedGap, BoundedMean, Evidence, Resampled, Scale, zero_or_one
from hyperfront.front.rows import described, evidence, refuse, rows_of, scale
from hyperfront.model import ParetoModel
from hyperfront.model.expected import expect_model
from hyperfront.problem import Meaning, Split

RESAMPLES, FEWEST, CELLS = 1000, 200, 2**24
"""Resamples of the bootstrap: fewer for many rows, which take long."""
UNKNOWN = "not known: too few rows differ"
"""The words for an interval without ends, such as for a model that gives the same answer everywhere."""
KINDS = {
    "binomial": "binomial test",
    "hoeffding-bentkus": "Hoeffding-Bentkus",
    "betting": "betting on pairs of rows",
    "groups": "exact test of each pair of groups",
    "bootstrap": "bootstrap",
}


@dataclass(frozen=True)
class Interval:
    """A value on a sample of rows, and the range of the population's value."""

    value: float
    low: float
    high: float
    method: str
    """``exact`` if it holds for every number of rows, ``asymptotic`` if it holds for many rows."""
    test: str
    """The name of the test or bootstrap."""

    def __str__(self) -> str:
        if math.isinf(self.low) and math.isinf(self.high):
            return f"{self.value:.4g} [{UNKNOWN}]"
        return f"{self.value:.4g} [{self.low:.4g}, {self.high:.4g}]"

    def between(self, number: Callable[[float], str]) -> str:
        """The two ends in words, as ``number`` writes them."""
        low, high = (None if math.isinf(end) else number(end) for end in (self.low, self.high))
        if low is None:
            return UNKNOWN if high is None else f"at most {high}"
        return f"{low} to {high}" if high is not None else f"at least {low}"


@dataclass(frozen=True, eq=False, repr=False)
class Intervals(Mapping[str, Interval]):
    """The interval of every loss and score at one ray, by name."""

    each: Mapping[str, Interval]
    meanings: Mapping[str, Meaning]
    confidence: float
    rows: int
    split: str
    """The split of the rows: ``val`` chose weights and rays, ``test`` and ``calibration`` chose nothing."""
    caveat: str | None = None
    """Why the rows are no random sample, if they are none."""

    def __getitem__(self, name: str) -> Interval:
        return self.each[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.each)

    def __len__(self) -> int:
        return len(self.each)

    def __repr__(self) -> str:
        lines = [f"{self.confidence:.0%} intervals from {self.rows:,} rows ({self.split}):"]
        for name, found in self.each.items():
            lines.append(f"  {self.meanings[name].title}: {found} ({found.method}, {found.test})")
        return "\n".join([*lines, *([f"Warning: {self.caveat}."] if self.caveat else [])])

    def document(self) -> dict[str, Any]:
        """The intervals as JSON; an end without a bound is None."""
        each = {
            name: {key: None if value in (math.inf, -math.inf) else value for key, value in asdict(found).items()}
            for name, found in self.each.items()
        }
        known = {"confidence": self.confidence, "rows": self.rows, "split": self.split, "caveat": self.caveat}
        return {**known, "intervals": each}


@checked
def intervals(
    model: ParetoModel,
    split: Split,
    ray: Tensor | Sequence[float],
    *,
    confidence: float = 0.95,
    exact_gaps: bool = True,
) -> Intervals:
    """Compute an interval for every loss and score at ``ray [m]``, from the rows of a split such as ``problem.test``.

    Each interval holds the value of the population that the rows were drawn from with probability ``confidence`` over
    the rows, for one interval at a time. Rows that chose weights or rays look too good: for honest intervals, name test
    or calibration rows. Exact tests of gaps take a second; ``exact_gaps=False`` takes the bootstrap for them.
    """
    expect_model(model, "intervals")
    if not isinstance(split, Split):
        raise ProblemError(
            "intervals need the rows of one split",
            got=type(split).__name__,
            expected="problem.test, problem.val or problem.calibration",
        )
    check_number("confidence", confidence, error=SelectionError)
    if not 0.5 <= confidence < 1:
        raise SelectionError("the confidence is no probability between .5 and 1", got=confidence)
    problem = split.problem
    table = preferences.layout(ray, model.m, model.objectives)
    if len(table) != 1:
        raise SelectionError("intervals are for one ray", got=f"{len(table)} rays", fix="one call for each ray")
    refuse(model, split)
    rows = rows_of(split)
    resamples = max(FEWEST, min(RESAMPLES, CELLS // max(1, rows)))
    found = evidence(model, split, table[0], problem.meanings, like={}, resamples=resamples, exact_gaps=exact_gaps)
    level = (1 - confidence) / 2
    each = {
        name: _interval(_prepared(sample), scale(problem, name), level, described(problem, name).bounds)
        for name, sample in found.items()
    }
    return Intervals(each, problem.meanings, confidence, rows, split.name, problem.caveat)


def interval_document(
    model: ParetoModel, split: Split, ray: Tensor | Sequence[float], **options: Any
) -> dict[str, Any]:
    """The JSON of the intervals, or ``{"reason": ...}`` for data and models whose rows cannot be told apart."""
    try:
        return intervals(model, split, ray, **options).document()
    except ProblemError as error:
        return {"reason": error.what}


def _prepared(found: Evidence) -> Evidence:
    """Choose the test by the kind of the values alone, so that the same rows may be tested."""
    if not isinstance(found, Bounded) or zero_or_one(found.values, found.bounds):
        return found
    return replace(found, test="hoeffding-bentkus" if isinstance(found, BoundedMean) else "betting")


def _interval(found: Evidence, units: Scale, level: float, bounds: tuple[float, float] | None = None) -> Interval:
    """The interval, within the bounds of the measure where it states some."""
    least, most = bounds or (-math.inf, math.inf)
    ends = [units.shown(min(max(found.bound(sign, level), least), most)) for sign in (">=", "<=")]
    test = "bootstrap" if isinstance(found, Resampled) else found.test if isinstance(found, Bounded) else ""
    if isinstance(found, BoundedGap) and test == "binomial":
        test = "groups"
    value = units.shown(found.value)
    return Interval(value, min(value, *ends), max(value, *ends), found.method, KINDS.get(test, test))
