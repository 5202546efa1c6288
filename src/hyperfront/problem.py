"""A problem: objectives by name, their units, a reference point, and the data they are measured on.

:func:`supervised` is a problem with data; :func:`analytic` one without, whose target is the point itself.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from hyperfront.batches import Batch
from hyperfront.errors import LossError, ProblemError
from hyperfront.measures import Measure, as_measure
from hyperfront.model import ParetoModel, check_objectives, wrap
from hyperfront.sources import Augmentation, Deferred, NoData, Source, as_sources
from hyperfront.target import Network
from hyperfront.units import Units


@dataclass(frozen=True)
class Truth:
    """The known front of an analytic problem."""

    points: Tensor
    """Points of the front, ``[K, m]``, dense enough to draw."""
    hypervolume: float
    """Exact, for the problem's reference point."""
    distance: Callable[[Tensor], Tensor]
    """Euclidean distance of losses ``[R, m]`` to the front, ``[R]``."""


@dataclass(frozen=True, eq=False)
class Split:
    """One part of a problem's data: what :func:`hyperfront.evaluate` takes."""

    name: str
    problem: Problem
    source: Source


@dataclass(frozen=True, eq=False)
class Problem:
    """Made by :func:`supervised` or :func:`analytic`."""

    objectives: tuple[str, ...]
    reference: tuple[float, ...] | None
    units: Units
    measures: Mapping[str, Measure]
    scores: Mapping[str, Measure]
    sources: Mapping[str, Source]
    inputs: Callable[[Batch], Batch]
    function: Callable[[Tensor], Tensor] | None = None
    truth: Truth | None = None
    identity: Mapping[str, Any] | None = None
    """``{"problem": name, "arguments": {...}}`` of a built-in problem, so that its runs load without a target."""
    make_target: Callable[[], nn.Module] | None = None
    example: Callable[[], Batch] | None = None
    """One row of what the module takes, zeros: its shapes and types, where the data are not."""
    data_dir: str | Path | None = None
    """Where the data were said to be; no part of its identity."""

    @property
    def name(self) -> str:
        """Of a built-in problem; ``"problem"`` for any other."""
        return (self.identity or {}).get("problem", "problem")

    @property
    def m(self) -> int:
        return len(self.objectives)

    @property
    def has_data(self) -> bool:
        return self.function is None

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

    def model(self, **options: Any) -> ParetoModel:
        """The problem's own target, wrapped (see :func:`hyperfront.wrap` for the options)."""
        if self.make_target is None:
            raise ProblemError(
                "the problem has no target of its own",
                fix="supervised(..., make_target=YourModule), or hyperfront.wrap(your_module, objectives) for fit",
            )
        return wrap(self.make_target(), self.objectives, **options)

    def check_model(self, model: ParetoModel) -> None:
        """An error if the model is of other objectives, or of these in another order."""
        if model.objectives != self.objectives:
            raise ProblemError(
                "model and problem have different objectives", got=model.objectives, expected=self.objectives
            )

    def losses(self, network: Network, batch: Batch) -> Tensor:
        """The losses ``[m]`` of one network on one batch, in the problem's units."""
        return torch.stack(self.each_loss(network, batch))

    def each_loss(self, network: Network, batch: Batch) -> tuple[Tensor, ...]:
        """The same, one by one, so that the gradient of one does not go through the others."""
        output = network(self.inputs(batch))
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


def supervised(
    train: Any,
    val: Any = None,
    test: Any = None,
    *,
    losses: Mapping[str, Measure | Callable[[Any, Batch], Tensor]],
    reference: Sequence[float] | None = None,
    scores: Mapping[str, Measure | Callable[[Any, Batch], Tensor]] | None = None,
    inputs: Callable[[Batch], Batch] | None = None,
    augment: Augmentation | None = None,
    scale: Mapping[str, float] | None = None,
    ideal: Mapping[str, float] | None = None,
    maximise: Sequence[str] = (),
    identity: Mapping[str, Any] | None = None,
    make_target: Callable[[], nn.Module] | None = None,
    example: Callable[[], Batch] | None = None,
) -> Problem:
    """A problem with data.

    A split is ``(x, y, ...)`` tensors, which are held on the device, or a ``DataLoader``. ``losses`` maps names to
    functions ``f(output, batch) -> scalar``; the module is called on ``inputs(batch)``, by default the first entry of
    the batch. ``scores`` are reported beside the losses and not trained. ``augment`` changes training batches (see
    :class:`hyperfront.sources.Augmentation`). ``train`` may also be a function that loads all three splits when they
    are first needed, as ``{"train": ..., "val": ..., "test": ...}``.

    ``make_target`` makes the module, for comparisons with other methods (:mod:`hyperfront.experiments.compare`), and
    ``identity``, such as ``{"problem": "mine", "arguments": {"rows": 400}}``, tells it from others in their results.

    ``scale``, ``ideal`` and ``maximise`` change the units of an objective to ``(value - ideal) / scale`` (see
    :mod:`hyperfront.units`), so ``scale`` is a typical size of the value. From there on everything is in these units:
    what rays compare, the losses of a front, ``reference``, and the limits of ``Front.select``.

    >>> x = torch.randn(64, 3)
    >>> problem = supervised((x, x[:, :1], x[:, 1:2]), losses={
    ...     "first": lambda output, batch: (output - batch[1]).square().mean(),
    ...     "second": lambda output, batch: (output - batch[2]).square().mean()}, reference=(2, 2))
    >>> problem.objectives
    ('first', 'second')
    """
    objectives = check_objectives(tuple(losses))
    if isinstance(make_target, nn.Module):
        raise ProblemError(
            "make_target makes a module anew for each model",
            got=f"a {type(make_target).__name__}",
            expected="a function without arguments",
            fix="make_target=lambda: nn.Sequential(...)",
        )
    if taken := [name for name in scores or {} if name in objectives]:
        raise ProblemError("a score has the name of a loss", got=taken[0], fix="give it another name")
    given = {name: data for name, data in {"train": train, "val": val, "test": test}.items() if data is not None}
    deferred = callable(train) and not isinstance(train, Tensor)
    return Problem(
        objectives=objectives,
        reference=check_reference(reference, objectives),
        units=Units.of(objectives, scale, ideal, maximise),
        measures={name: as_measure(f) for name, f in losses.items()},
        scores={name: as_measure(f) for name, f in (scores or {}).items()},
        sources=Deferred(train, ("train", "val", "test"), augment) if deferred else as_sources(given, augment),
        inputs=inputs or _first,
        identity=identity,
        make_target=make_target,
        example=example,
    )


def analytic(
    function: Callable[[Tensor], Tensor],
    *,
    variables: int,
    objectives: Sequence[str] = ("l1", "l2"),
    bounds: tuple[float, float] | tuple[Sequence[float], Sequence[float]] | None = None,
    reference: Sequence[float] | None = None,
    scale: Mapping[str, float] | None = None,
    ideal: Mapping[str, float] | None = None,
    maximise: Sequence[str] = (),
    truth: Truth | None = None,
    identity: Mapping[str, Any] | None = None,
) -> Problem:
    """A problem without data: ``function`` maps a point ``[variables]`` to its losses ``[m]``.

    Train ``problem.model()``, whose target is the point itself. ``bounds = (lo, hi)`` keeps it in a box.

    >>> problem = analytic(lambda x: torch.stack([x.square().sum(), (x - 1).square().sum()]), variables=3)
    >>> problem.model().weights([0.5, 0.5]).shape
    torch.Size([1, 3])
    """
    objectives = check_objectives(objectives)
    _check_bounds(bounds, variables)
    source = NoData()
    return Problem(
        objectives=objectives,
        reference=check_reference(reference, objectives),
        units=Units.of(objectives, scale, ideal, maximise),
        measures={},
        scores={},
        sources={"train": source, "val": source, "test": source},
        inputs=lambda batch: (),
        function=function,
        truth=truth,
        identity=identity,
        make_target=lambda: Point(variables, bounds),
    )


class Point(nn.Module):
    """The target of an analytic problem: a point, in a box if there are bounds.

    ``x = lo + (hi - lo) sin^2(z + pi/4)`` starts in the middle of the box at ``z = 0`` and reaches its faces, where a
    sigmoid's gradient would have vanished and a clamp has none.

    >>> Point(2, (0.0, 4.0))()
    tensor([2.0000, 2.0000], grad_fn=<AddBackward0>)
    """

    low: Tensor | None
    width: Tensor | None

    def __init__(self, variables: int, bounds: tuple | None = None):
        super().__init__()
        self.z = nn.Parameter(torch.zeros(variables))
        low, high = (torch.as_tensor(b, dtype=torch.float32).expand(variables) for b in bounds or (0.0, 0.0))
        self.register_buffer("low", low.clone() if bounds else None)
        self.register_buffer("width", high - low if bounds else None)

    def forward(self) -> Tensor:
        if self.low is None or self.width is None:
            return self.z
        return self.low + self.width * torch.sin(self.z + math.pi / 4).square()


def check_reference(reference: Sequence[float] | None, objectives: Sequence[str]) -> tuple[float, ...] | None:
    """A finite number for each objective, or None."""
    if reference is None:
        return None
    point = tuple(float(value) for value in reference)
    if len(point) != len(objectives) or not all(map(math.isfinite, point)):
        raise ProblemError(
            "the reference point does not fit the objectives",
            got=point,
            expected=f"{len(objectives)} finite numbers, for {', '.join(objectives)}",
        )
    return point


def _check_bounds(bounds: tuple | None, variables: int) -> None:
    try:
        low, high = (torch.as_tensor(b, dtype=torch.float64).expand(variables) for b in bounds or (0.0, 1.0))
        fits = bool(((high - low > 0) & (high - low).isfinite()).all())
    except (TypeError, ValueError, RuntimeError):
        fits = False
    if not fits:
        raise ProblemError(
            "the bounds make no box", got=bounds, expected=f"(lo, hi) with lo < hi, numbers or {variables} numbers each"
        )


def _first(batch: Batch) -> Batch:
    if not isinstance(batch, tuple | list):
        raise ProblemError(
            "a batch is no tuple, so it is not clear what the module takes",
            got=type(batch).__name__,
            fix="say it with supervised(..., inputs=lambda batch: ...)",
        )
    return batch[0]


def scalar(name: str, value: Any) -> Tensor:
    """A loss or score as a tensor without dimensions, or an error that names it."""
    if not isinstance(value, Tensor) or value.numel() != 1:
        raise LossError(
            f"{name!r} is not a single number",
            got=list(value.shape) if isinstance(value, Tensor) else type(value).__name__,
            expected="a tensor with one element",
            fix="reduce it, for example with .mean()",
        )
    return value.reshape(())
