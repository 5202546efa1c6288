"""A problem: objectives by name, their units, a reference point, and the data they are measured on."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from hyperfront.errors import LossError, ProblemError, check_number, shown
from hyperfront.errors.signatures import checked
from hyperfront.model import ParetoModel, wrap
from hyperfront.model.substitution import Network
from hyperfront.problem.described import Loss, Score
from hyperfront.problem.meaning import Meaning
from hyperfront.problem.presentation import Presentation
from hyperfront.problem.sources import Source
from hyperfront.problem.units import Units
from hyperfront.storage.batches import Batch, arguments, split

if TYPE_CHECKING:
    from hyperfront.problem.lesson import Lesson


@checked
@dataclass(frozen=True)
class Truth:
    """The known front of an analytic problem."""

    points: Tensor
    """Points of the front, ``[K, m]``, dense enough to draw."""
    hypervolume: float
    """The exact hypervolume for the problem's reference point."""
    distance: Callable[[Tensor], Tensor]
    """Maps losses ``[R, m]`` to their Euclidean distances ``[R]`` from the front."""

    def __post_init__(self) -> None:
        check_number("hypervolume of Truth", self.hypervolume, 0)


@checked
@dataclass(frozen=True, eq=False)
class Split:
    """One part of a problem's data, as :func:`hyperfront.evaluate` takes it."""

    name: str
    problem: Problem = field(repr=False)
    source: Source = field(repr=False)


@checked
@dataclass(frozen=True, eq=False)
class Problem:
    """Objectives, losses and data. :func:`supervised` and :func:`analytic` make problems."""

    objectives: tuple[str, ...]
    reference: tuple[float, ...] | None
    units: Units
    measures: Mapping[str, Loss]
    scores: Mapping[str, Score]
    sources: Mapping[str, Source]
    inputs: Callable[[Batch], Batch]
    function: Callable[[Tensor], Tensor] | None = None
    truth: Truth | None = None
    identity: Mapping[str, Any] | None = None
    """``{"problem": name, "arguments": {...}}`` of a built-in problem, so that its runs load without a target."""
    make_target: Callable[[], nn.Module] | None = None
    example: Callable[[], Batch] | None = None
    """An input of one row of zeros. It gives shapes and types where the data are not loaded."""
    divisible: bool = True
    """Whether the rows of a batch are the first dimension of its tensors, so that rays can have different rows."""
    data_dir: str | Path | None = None
    """The folder of the data, if one was given. It is no part of the identity."""
    presentation: Presentation = field(default_factory=Presentation)
    """Title, introduction and sample inputs of its page, and notes for its card."""
    wrapping: Mapping[str, Any] = field(default_factory=dict)
    """Options of :meth:`model` that suit the problem; the caller's options override them."""
    training: Callable[[], Mapping[str, Any]] | None = None
    """Returns arguments of :func:`hyperfront.fit` that suit the problem; the caller's arguments override them."""
    lesson: Lesson | None = None
    """How a teacher labels the training batches (:func:`hyperfront.distill`)."""
    caveat: str | None = None
    """Why the calibration rows are no random sample of the population that limits are about, if they are none."""

    @property
    def name(self) -> str:
        """The name of a built-in problem; ``"problem"`` for your own problem."""
        return (self.identity or {}).get("problem", "problem")

    @property
    def m(self) -> int:
        return len(self.objectives)

    @property
    def has_data(self) -> bool:
        return self.function is None

    @checked
    def split(self, name: str) -> Split:
        if name not in self.sources:
            raise ProblemError(f"the problem has no {name} split", expected="one of " + ", ".join(self.sources))
        return Split(name, self, self.sources[name])

    @property
    def train(self) -> Split:
        return self.split("train")

    @property
    def val(self) -> Split:
        return self.split("val")

    @property
    def test(self) -> Split:
        return self.split("test")

    @property
    def calibration(self) -> Split:
        """The rows that certify limits (:meth:`hyperfront.Front.select`) and choose nothing."""
        return self.split("calibration")

    @property
    def meanings(self) -> dict[str, Meaning]:
        """The meaning of every loss and score on a front, by name."""
        return {name: self.meaning(name) for name in (*self.objectives, *self.scores)}

    @checked
    def meaning(self, name: str) -> Meaning:
        """Return the label, unit, direction and bounds of a loss or score of a front: less of a loss is better, and its
        bounds are in the problem's units. A loss with a scale has no unit."""
        if name in self.scores:
            found = self.scores[name].meaning
        elif name in self.objectives:
            found = self._meaning_of_loss(self.objectives.index(name))
        else:
            raise ProblemError(
                "the problem has no loss or score of this name",
                got=repr(name),
                expected="one of " + ", ".join([*self.objectives, *self.scores]),
            )
        return replace(found, label=found.label or name)

    def _meaning_of_loss(self, index: int) -> Meaning:
        loss = self.measures.get(self.objectives[index])
        if loss is None:  # of an analytic problem
            return Meaning("")
        found, ideal, slope = loss.meaning, self.units.ideal[index], self.units.slope[index]
        low, high = sorted((bound - ideal) * slope for bound in found.bounds or (0, 0))
        return replace(found, unit=found.unit if slope == 1 else "", bounds=(low, high) if found.bounds else None)

    @checked
    def model(self, **options: Any) -> ParetoModel:
        """Wrap the problem's own target; ``options`` are passed to :func:`hyperfront.wrap`. Separate models share no
        weights, so :attr:`wrapping` does not apply to them."""
        if self.make_target is None:
            raise ProblemError(
                "the problem has no target of its own",
                fix="supervised(..., make_target=YourModule), or hyperfront.wrap(your_module, objectives) for fit",
            )
        usual = {} if options.get("hypernet") == "separate" else self.wrapping
        return wrap(self.make_target(), self.objectives, **{**usual, **options})

    @checked
    def check_model(self, model: ParetoModel) -> None:
        """Raise an error if the objectives of the model, or their order, differ from the problem's."""
        if model.objectives != self.objectives:
            raise ProblemError(
                "model and problem have different objectives", got=model.objectives, expected=self.objectives
            )

    def divided(self, batch: Batch, parts: int) -> Batch:
        """The batch ``[B, ...]`` as ``[parts, B / parts, ...]``, one part for each ray of a step."""
        if not self.divisible:
            raise ProblemError(
                "a batch whose rows are counted by rows= cannot be split among the rays of a step",
                got=f"{parts} rays",
                fix="fit(..., share_batch=True), so that all rays see the whole batch, or rays_per_step=1",
            )
        return split(batch, parts)

    def losses(self, network: Network, batch: Batch) -> Tensor:
        """Compute the losses ``[m]`` of one network on one batch, in the problem's units."""
        return torch.stack(self.each_loss(network, batch))

    def each_loss(self, network: Network, batch: Batch) -> tuple[Tensor, ...]:
        """Compute the losses as ``m`` tensors, so that the gradient of one loss does not pass through the others."""
        args, kwargs = arguments(self.inputs(batch))
        output = network(*args, **kwargs)
        if self.function is not None:
            return self.units.apply(self._checked(self.function(output))).unbind()
        values = [scalar(name, f(output, batch)) for name, f in self.measures.items()]
        if not self.units.trivial:
            values = [(v - ideal) * slope for v, ideal, slope in zip(values, self.units.ideal, self.units.slope)]
        return tuple(values)

    def _checked(self, values: Tensor) -> Tensor:
        if values.shape != (self.m,):
            raise LossError(
                "the objectives have the wrong shape",
                got=list(values.shape),
                expected=f"[{self.m}], one number for each of {', '.join(self.objectives)}",
            )
        return values


@checked
def check_reference(reference: Sequence[float] | None, objectives: Sequence[str]) -> tuple[float, ...] | None:
    """Return the reference point as a tuple of finite numbers, one for each objective, or None."""
    if reference is None:
        return None
    fits = len(reference) == len(objectives)
    try:
        point = tuple(float(value) for value in reference) if fits else ()
    except (TypeError, ValueError, OverflowError):
        point = ()
    if len(point) != len(objectives) or not all(map(math.isfinite, point)):
        raise ProblemError(
            "the reference point does not fit the objectives",
            got=shown(reference),
            expected=f"{len(objectives)} finite numbers, for {', '.join(objectives)}",
        )
    return point


@checked
def scalar(name: str, value: Any) -> Tensor:
    """Return a loss or score as a tensor without dimensions, or raise an error that names it."""
    if not isinstance(value, Tensor) or value.is_nested or value.numel() != 1:
        raise LossError(
            f"{name!r} is not a single number",
            got=list(value.shape) if isinstance(value, Tensor) and not value.is_nested else type(value).__name__,
            expected="a tensor with one element",
            fix="reduce it, for example with .mean()",
        )
    return value.reshape(())
