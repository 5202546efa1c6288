"""The selection of an operating point: its ray, its losses and scores, and how far they depend on the starting grid."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from hyperfront.errors import SelectionError, UnattainableError, check_number
from hyperfront.errors.signatures import checked
from hyperfront.front import search
from hyperfront.front.certificate import Certificate
from hyperfront.front.question import Question
from hyperfront.front.search import Columns, Points
from hyperfront.problem import Meaning

if TYPE_CHECKING:
    from hyperfront.front.certification import Certifier
    from hyperfront.front.front import Front


@checked
@dataclass(frozen=True)
class Spread:
    """The dependence of the answer on the starting grid: the range of the goal over several searches.

    One search starts from the whole grid and one from each half of it, every other ray. A wide range, or searches
    without a point within the limits, mean that the grid is too coarse for the question.
    """

    low: float
    high: float
    """The smallest and largest best value of the searches that found a point within the limits."""
    found: int
    """The number of searches that found a point within the limits."""
    searches: int = 3

    def __post_init__(self) -> None:
        for bound in (self.low, self.high):
            check_number("the spread of an answer", bound)

    def __str__(self) -> str:
        same = f"{self.low:.4g}" if self.low == self.high else f"{self.low:.4g} to {self.high:.4g}"
        return f"{same} in {self.found} of {self.searches} searches from parts of the grid"


@checked
@dataclass(frozen=True, eq=False, repr=False)
class Selection:
    """An operating point, as :meth:`hyperfront.Front.select` found it; ``model.at(choice.ray)`` is its network."""

    ray: Tensor
    """The ray ``[m]``."""
    values: Mapping[str, float]
    """Losses and scores at the ray, on the split of the front."""
    question: Question
    spread: Spread
    refined: bool
    """Whether the model was measured between the points of the front."""
    split: str | None
    """The split of the front, such as ``val``."""
    meanings: Mapping[str, Meaning]
    certificate: Certificate | None = None
    """The guarantee for the limits, if a confidence was asked for."""

    @property
    def goal(self) -> str:
        return self.question.goal

    @property
    def limits(self) -> dict[str, tuple[str, float]]:
        """The limits by name, as pairs such as ``("<=", 0.05)``."""
        return dict(self.question.limits)

    def __repr__(self) -> str:
        """A summary to read."""
        where = f" on the {self.split} split" if self.split else ""
        lines = [f"Selection: {self.question}", f"  ray: {', '.join(f'{entry:.4g}' for entry in self.ray.tolist())}"]
        for name, value in self.values.items():
            limit = self.limits.get(name)
            role = " (goal)" if name == self.goal else f" (limit {limit[0]} {limit[1]:g})" if limit else ""
            lines.append(f"  {self.meanings[name].title}: {value:.4g}{role}")
        lines.append(f"  measured{where}; {self.goal} is {self.spread}")
        if self.certificate is not None:
            lines.append("  " + str(self.certificate).replace("\n", "\n  "))
        if not self.refined:
            lines.append("  only the points of the front were searched, since it has no model")
        return "\n".join(lines)

    def document(self) -> dict[str, Any]:
        """The selection as JSON."""
        spread = self.spread
        return {
            "ray": self.ray.tolist(),
            "goal": self.goal,
            "maximize": self.question.maximize,
            "limits": {name: [sign, limit] for name, (sign, limit) in self.limits.items()},
            "values": dict(self.values),
            "spread": {"low": spread.low, "high": spread.high, "found": spread.found, "searches": spread.searches},
            "refined": self.refined,
            "split": self.split,
            "certificate": None if self.certificate is None else self.certificate.document(),
        }


def select(
    front: Front, question: Question, *, confidence: float | None, future_rows: int | None, rounds: int
) -> Selection:
    """Answer a question by the best of three searches, from the whole grid and from each half of it; with a confidence,
    by the best ray whose limits are certified."""
    check_number("rounds", rounds, 0, whole=True, error=SelectionError)
    if not len(front):
        raise SelectionError("nothing to select from", got="a front without rays")
    if future_rows is not None and confidence is None:
        raise SelectionError("future_rows needs a confidence", fix="confidence=0.95")
    certifier = None if confidence is None else _certifier(front, question, confidence, future_rows)
    if front.evaluator is None:
        warnings.warn("this front has no model, so only its own points are searched", stacklevel=3)
    points, spread = searched(front, question, rounds)
    certificate = None
    if certifier is not None and front.evaluator is not None:
        evaluator = front.evaluator
        candidates = certifier.candidates(points, lambda rays: evaluator(rays).columns(), rounds)
        chosen, certificate = certifier.certify(candidates, points[0][0], question.cost(points[1])[0].item())
        points = chosen.ray[None], evaluator(chosen.ray[None]).columns()
    rays, columns = points
    return Selection(
        ray=rays[0],
        values={name: values[0].item() for name, values in columns.items()},
        question=question,
        spread=spread,
        refined=front.evaluator is not None,
        split=front.provenance.get("split"),
        meanings=front.meanings,
        certificate=certificate,
    )


def _certifier(front: Front, question: Question, confidence: float, future_rows: int | None) -> Certifier:
    """Make the certifier of the limits, or raise an error if the front has no rows for it."""
    from hyperfront.front.certification import Certifier  # needs scipy

    if front.origin is None or front.evaluator is None:
        raise SelectionError(
            "only a front with a model and data can certify limits",
            got="an analytic problem" if front.evaluator else "a front from a file",
            fix="hf.evaluate(model, problem.val).select(...), with problem = hf.supervised(..., calibration=...)",
        )
    return Certifier(front.origin, question, confidence, future_rows)


def searched(front: Front, question: Question, rounds: int) -> tuple[Points, Spread]:
    """Collect the points of all searches, the best first, and the range of the goal over the searches."""
    found: list[Points] = []
    refusal: UnattainableError | None = None
    for part in (slice(None), slice(0, None, 2), slice(1 if len(front) > 1 else 0, None, 2)):
        columns = {name: values[part] for name, values in front.columns().items()}
        try:
            found.append(_search(front, front.rays[part], columns, question, rounds))
        except UnattainableError as error:
            refusal = refusal or error
    if refusal is not None and not found:
        raise refusal
    goals = [columns[question.goal][0].item() for _, columns in found]
    found.sort(key=lambda points: question.cost(points[1])[0].item())
    columns = {name: torch.cat([part[name] for _, part in found]) for name in found[0][1]}
    return (torch.cat([rays for rays, _ in found]), columns), Spread(min(goals), max(goals), len(found))


def _search(front: Front, rays: Tensor, columns: Columns, question: Question, rounds: int) -> Points:
    evaluator = front.evaluator
    if evaluator is not None:
        return search.search(lambda more: evaluator(more).columns(), rays, columns, question, rounds=rounds)
    index = search.best(columns, question)
    search.check(columns, index, question)
    return search.first(rays, columns, index)
