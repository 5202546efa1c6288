"""Certification: find the best ray whose limits hold in the population with a given probability.

The rows of the front's split (validation) choose, and the calibration rows, which chose nothing, test:

1. *Candidates.* Searches with tighter and tighter limits give rays between the safest and the best. Those that no other
   ray beats in both goal and safety are kept and ordered, safest first; the safety of a ray is its smallest distance to
   a limit in standard errors. (Pareto Testing: Laufer-Goldshtein et al., 2023.)
2. *Tests.* On the calibration rows the candidates are tested in that order, each at the level ``1 - confidence``, until
   one fails. With several limits, all must pass. The last candidate that passes is the answer.

Many tests need no correction here: let ``j`` be the first candidate in the order, which was fixed beforehand, that
violates a limit in the population. To return any violating candidate, ``j`` must pass, and the test of the limit that
``j`` violates passes with a probability of at most ``1 - confidence``. (Fixed-sequence testing, as in Learn then Test:
Angelopoulos et al., 2021; for several limits, the intersection-union test: Berger, 1982.)

With ``future_rows`` half of the level certifies tighter limits for the population, with which a sample of that many
rows keeps the limits with the other half.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial

import torch
from scipy.special import ndtri
from torch import Tensor

from hyperfront.errors import SelectionError, UnattainableError, check_number
from hyperfront.front import search
from hyperfront.front.certificate import Certificate, CertifiedLimit, Price
from hyperfront.front.evidence import Evidence, Scale
from hyperfront.front.origin import Origin
from hyperfront.front.question import Question
from hyperfront.front.rows import evidence, rows_of, scale
from hyperfront.front.search import Points
from hyperfront.problem import Split

SEARCHES, FARTHEST = 5, 4.2
"""Searches between the best ray and the safest, as far as a distance to the limits in standard errors."""
MOST = 30
"""The most candidates."""
STEP = 0.1
"""Candidates differ in their safety by at least this many standard errors."""


@dataclass(frozen=True)
class Candidate:
    """A ray ``[m]`` with its evidence on the rows that chose it."""

    ray: Tensor
    cost: float
    evidence: Mapping[str, Evidence]
    safety: float


@dataclass(frozen=True)
class Certifier:
    """The certification of a question with a confidence, for the population or for a number of new rows."""

    origin: Origin
    question: Question
    confidence: float
    future_rows: int | None = None

    def __post_init__(self) -> None:
        if not self.question.limits:
            raise SelectionError("there is no limit to certify", fix="subject_to={name: limit}, or no confidence=")
        check_number("confidence", self.confidence, error=SelectionError)
        if not 0.5 <= self.confidence < 1:
            raise SelectionError("the confidence is no probability between .5 and 1", got=self.confidence)
        if self.future_rows is not None:
            check_number("future_rows", self.future_rows, 1, whole=True, error=SelectionError)
        self.calibration  # noqa: B018 (raises an error if there is none)

    @property
    def calibration(self) -> Split:
        return self.origin.calibration()

    def scale(self, name: str) -> Scale:
        return scale(self.origin.split.problem, name)

    def chosen(self, ray: Tensor) -> dict[str, Evidence]:
        """Measure the evidence of the selecting rows at a ray; it gives standard errors and chooses the tests."""
        return evidence(self.origin.model, self.origin.split, ray, self.question.limits, resamples=100)

    def tested(self, candidate: Candidate) -> dict[str, Evidence]:
        """Measure the evidence of the calibration rows at a candidate."""
        limits, like = self.question.limits, candidate.evidence
        return evidence(self.origin.model, self.calibration, candidate.ray, limits, like=like)

    # ---- candidates ------------------------------------------------------------------------------------------

    def candidates(self, points: Points, measure: search.Measure, rounds: int) -> list[Candidate]:
        """Find the candidates, safest first, starting from the points of earlier searches, the best of them first."""
        rays, columns = points
        errors = self._errors(self.chosen(rays[0]))
        searched = partial(search.search, measure, rounds=max(1, rounds // 2))
        for name, (sign, _) in self.question.limits.items():
            with suppress(UnattainableError):
                rays, columns = searched(rays, columns, Question(name, maximize=sign == ">="))
        safest = min(FARTHEST, self._safety(columns, errors).max().item())
        for place in range(1, SEARCHES + 1):
            with suppress(UnattainableError):
                tighter = self._tighter(safest * place / (SEARCHES + 1), errors)
                rays, columns = searched(rays, columns, tighter)
        slack = self._safety(columns, errors)
        cost = self.question.cost(columns)
        usable = (slack >= 0) & cost.isfinite()
        rough = _path(slack, cost, usable, 0.0)
        kept = [rough[round(place)] for place in torch.linspace(0, len(rough) - 1, min(MOST, len(rough))).tolist()]
        found = [self._candidate(rays[index], columns, index) for index in kept]
        safety = torch.tensor([each.safety for each in found]).double()
        order = _path(safety, torch.tensor([each.cost for each in found]).double(), safety >= 0, STEP)
        return [found[index] for index in order]

    def _safety(self, columns: Mapping[str, Tensor], errors: Mapping[str, float]) -> Tensor:
        """The smallest distance of each point to a limit, in standard errors."""
        return (
            torch.stack([self._slack(name, columns[name]) / errors[name] for name in errors])
            .amin(0)
            .nan_to_num(nan=-math.inf)
        )

    def _tighter(self, margin: float, errors: Mapping[str, float]) -> Question:
        """The goal within limits that are tighter by this many standard errors."""
        tight = {
            name: (sign, limit - margin * errors[name] if sign == "<=" else limit + margin * errors[name])
            for name, (sign, limit) in self.question.limits.items()
        }
        return replace(self.question, limits=tight)

    def _candidate(self, ray: Tensor, columns: Mapping[str, Tensor], index: int) -> Candidate:
        found = self.chosen(ray)
        errors = self._errors(found)
        slack = [float(self._slack(name, columns[name][index])) / errors[name] for name in errors]
        return Candidate(ray, self.question.cost(columns)[index].item(), found, min(slack))

    def _slack(self, name: str, values: Tensor) -> Tensor:
        sign, limit = self.question.limits[name]
        return limit - values if sign == "<=" else values - limit

    def _errors(self, found: Mapping[str, Evidence]) -> dict[str, float]:
        """Estimate the standard errors of the values on calibration rows, in the units of the front. Rows without
        variation count as if one of them differed, so that no error is zero."""
        count = rows_of(self.calibration)
        return {
            name: abs(self.scale(name).slope) * max(each.error, 1 / each.rows) * (each.rows / count) ** 0.5
            for name, each in found.items()
        }

    # ---- tests -----------------------------------------------------------------------------------------------

    def certify(self, candidates: list[Candidate], best: Tensor, cost: float) -> tuple[Candidate, Certificate]:
        """Find the best candidate that the calibration rows certify, and make its certificate; ``best`` is the ray
        that would be chosen without one, and ``cost`` that of its goal."""
        passed = self.walk(candidates, self.tested)
        if not passed:
            raise self._refusal(candidates)
        found = passed[-1]
        limits = {name: self._limit(name, each) for name, each in found.items()}
        rows = next(iter(found.values())).rows
        chosen = candidates[len(passed) - 1]
        price = self._price(candidates, chosen, best, cost, rows)
        caveat = self.origin.split.problem.caveat
        parts = (self.confidence, limits, rows, self.future_rows, len(candidates), len(passed))
        return chosen, Certificate(*parts, price=price, caveat=caveat)

    def _price(self, candidates: list[Candidate], chosen: Candidate, best: Tensor, cost: float, rows: int) -> Price:
        """Compute the price of certainty: a test needs a distance of about ``z`` standard errors to the limit, and
        these fall with the square root of the rows."""
        limits, turned = self.question.limits, -1 if self.question.maximize else 1
        found = evidence(self.origin.model, self.calibration, best, limits, like=self.chosen(best))
        smallest = {name: _outside(self._limit(name, each)) for name, each in found.items()}
        z = -float(ndtri(self._level))
        halfway = [each.safety for each in candidates if each.cost <= (cost + chosen.cost) / 2 and each.safety > 0]
        needed = math.ceil(rows * max(1.0, z / max(halfway)) ** 2) if halfway and cost < chosen.cost else None
        return Price(self.question.goal, turned * cost, turned * chosen.cost, smallest, needed)

    def walk(
        self, candidates: list[Candidate], evidence_of: Callable[[Candidate], Mapping[str, Evidence]]
    ) -> list[Mapping[str, Evidence]]:
        """Test the candidates in order until the first failure, and return the evidence of the passed ones."""
        passed = []
        for candidate in candidates:
            found = evidence_of(candidate)
            if not all(each.passes(*self._tested(name, each)[:2], self._level) for name, each in found.items()):
                break
            passed.append(found)
        return passed

    @property
    def _level(self) -> float:
        """The level of the tests of the population."""
        return (1 - self.confidence) / (1 if self.future_rows is None else 2)

    def _tested(self, name: str, found: Evidence) -> tuple[str, float, str]:
        """Return direction and limit of the population, in the units of the function, and the kind of the test."""
        sign, limit = self.scale(name).raw(*self.question.limits[name])
        if self.future_rows is None:
            return sign, limit, found.method
        limit, method = found.ahead(sign, limit, self._level / len(self.question.limits), self.future_rows)
        return sign, limit, "exact" if method == found.method == "exact" else "asymptotic"

    def _limit(self, name: str, found: Evidence) -> CertifiedLimit:
        units, (sign, limit) = self.scale(name), self.question.limits[name]
        raw, tested, method = self._tested(name, found)
        return CertifiedLimit(
            value=units.shown(found.value),
            bound=units.shown(found.bound(raw, self._level)),
            sign=sign,
            limit=limit,
            tested=units.shown(tested),
            method="exact" if method == "exact" else "asymptotic",
        )

    def _refusal(self, candidates: list[Candidate]) -> UnattainableError:
        """Make the error that names the smallest limits that the rows certify for the safest candidate."""
        asked = ", ".join(f"{name} {sign} {limit:g}" for name, (sign, limit) in self.question.limits.items())
        what = f"the calibration rows certify no ray at confidence {self.confidence:g}"
        if not candidates:
            return UnattainableError(what, got=asked, fix="relax the limits, or train longer")
        found = self.tested(candidates[0])
        smallest = []
        for name, each in found.items():
            limit = self._limit(name, each)
            kept = each.passes(*self._tested(name, each)[:2], self._level)
            smallest.append(f"{name} {limit.sign} {limit.limit if kept else _outside(limit):.4g}")
        return UnattainableError(
            what,
            got=asked,
            expected=f"limits that the rows can certify; the smallest at the safest ray are {', '.join(smallest)}",
            fix="relax the limits to these, lower the confidence, or use more calibration rows",
        )


def _outside(limit: CertifiedLimit) -> float:
    """Compute the smallest certified limit: the bound plus the margin for future rows, rounded to the loose side."""
    beyond = limit.bound + (limit.limit - limit.tested)
    grain = 10.0**-4 * max(abs(beyond), 1e-4)
    return beyond + grain if limit.sign == "<=" else beyond - grain


def _path(safety: Tensor, cost: Tensor, usable: Tensor, step: float) -> list[int]:
    """List usable points in the order of their safety, each cheaper than all before, and at least ``step`` apart."""
    path: list[int] = []
    for index in safety.argsort(descending=True, stable=True).tolist():
        if not usable[index] or (path and not cost[index] < cost[path[-1]]):
            continue
        if len(path) > 1 and safety[path[-2]] - safety[index] < step:
            path[-1] = index  # cheaper, and nearly as safe
        else:
            path.append(index)
    return path
