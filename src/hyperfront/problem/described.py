"""Described measures: a :class:`Loss` or :class:`Score` is a measure with a direction, a label, a unit and bounds.

======================= ======================= ===================================================================
:class:`Loss`           less is better          It is trained. A plain function is a loss without a label.
:class:`Score`          ``maximize=`` says so   It is reported beside the losses, and can be limited or optimized.
======================= ======================= ===================================================================

Label, unit and bounds describe the value on a front, which is the loss in the problem's units
(:mod:`hyperfront.problem.units`); bounds are those of the function, and :meth:`Problem.meaning` converts them.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, Self

from torch import Tensor

from hyperfront.errors import ProblemError
from hyperfront.errors.signatures import checked_except
from hyperfront.problem.losses import Measure, as_measure
from hyperfront.problem.meaning import Bounds, Meaning, check_bounds
from hyperfront.storage.batches import Batch


@dataclass(frozen=True)
class Described(Measure):
    """A function or measure with a meaning. It is evaluated as the measure that it describes."""

    of: Measure | Callable[[Any, Batch], Tensor]
    """The measure, or a function that is averaged over rows."""
    label: str = field(default="", kw_only=True)
    """Words for a reader; the default is the name in the problem."""
    unit: str = field(default="", kw_only=True)
    bounds: Bounds | None = field(default=None, kw_only=True)
    """The smallest and largest possible value, such as ``(0, 1)`` for an accuracy; for a mean over rows or a gap, of a
    single row."""

    def __post_init__(self) -> None:
        if isinstance(self.of, Described) or not callable(self.of):
            raise ProblemError(
                f"a {type(self).__name__} describes a function or a measure",
                got=f"a {type(self.of).__name__}",
                expected="f(output, batch) -> scalar, SetLoss, Gathered or Gap",
            )
        object.__setattr__(self, "bounds", check_bounds(self.bounds))

    @property
    @abstractmethod
    def meaning(self) -> Meaning:
        """The meaning of the function's values."""

    def counted(self, count: Callable[[Batch], int | Tensor]) -> Self:
        """Average a plain function over rows that ``count`` counts."""
        return replace(self, of=as_measure(self.of, count))

    @property
    def measure(self) -> Measure:
        return as_measure(self.of)

    @property
    def additive(self) -> bool:
        return self.measure.additive

    def statistics(self, output: Any, batch: Batch) -> Any:
        return self.measure.statistics(output, batch)

    def value(self, statistics: Any) -> Tensor:
        return self.measure.value(statistics)

    def merge(self, first: Any, second: Any) -> Any:
        return self.measure.merge(first, second)

    def __call__(self, output: Any, batch: Batch) -> Tensor:
        return self.measure(output, batch)


@checked_except("of", "bounds")
@dataclass(frozen=True)
class Loss(Described):
    """A loss with a label, a unit and bounds: ``hf.Loss(f, label="log loss", unit="nats")``."""

    @property
    def meaning(self) -> Meaning:
        return Meaning(self.label, self.unit, maximize=False, bounds=self.bounds)


@checked_except("of", "bounds")
@dataclass(frozen=True)
class Score(Described):
    """A score, which declares whether more is better: ``hf.Score(f, maximize=True, label="accuracy")``."""

    maximize: bool = field(kw_only=True)

    @property
    def meaning(self) -> Meaning:
        return Meaning(self.label, self.unit, maximize=self.maximize, bounds=self.bounds)


def as_loss(name: str, given: Measure | Callable[[Any, Batch], Tensor], count: Callable[[Batch], int | Tensor]) -> Loss:
    """Return the loss ``name`` as a user gave it to :func:`hyperfront.supervised`."""
    if isinstance(given, Score):
        raise ProblemError(
            f"the loss {name!r} is a Score",
            expected="a function, a measure or hf.Loss",
            fix=f"hf.Loss(f); an objective where more is better needs maximize=[{name!r}] and its ideal value",
        )
    loss = given if isinstance(given, Loss) else Loss(given)
    return loss.counted(count)


def as_score(
    name: str, given: Measure | Callable[[Any, Batch], Tensor], count: Callable[[Batch], int | Tensor]
) -> Score:
    """Return the score ``name`` as a user gave it to :func:`hyperfront.supervised`."""
    if not isinstance(given, Score):
        raise ProblemError(
            f"the score {name!r} does not say whether more or less is better",
            got=f"a {type(given).__name__}" if isinstance(given, Measure) else "a function",
            expected="hf.Score",
            fix=f"scores={{{name!r}: hf.Score(f, maximize=True)}}, or maximize=False",
        )
    return given.counted(count)
