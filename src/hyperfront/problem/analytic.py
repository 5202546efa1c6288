"""Problems without data: :func:`analytic`, whose target is the point itself."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from hyperfront.errors import ProblemError, check_number, shown
from hyperfront.errors.signatures import checked
from hyperfront.model import check_objectives
from hyperfront.problem.problem import Problem, Truth, check_reference
from hyperfront.problem.sources import NoData
from hyperfront.problem.units import Units

MOST = 10**9
"""The most variables of a point."""


@checked
def analytic(
    function: Callable[[Tensor], Tensor],
    *,
    variables: int,
    objectives: Sequence[str] = ("l1", "l2"),
    bounds: tuple[float, float] | tuple[Sequence[float], Sequence[float]] | None = None,
    reference: Sequence[float] | None = None,
    scale: Mapping[str, float] | None = None,
    ideal: Mapping[str, float] | None = None,
    maximize: Sequence[str] = (),
    truth: Truth | None = None,
    identity: Mapping[str, Any] | None = None,
) -> Problem:
    """Make a problem without data: ``function`` maps a point ``[variables]`` to its losses ``[m]``.

    Train ``problem.model()``, whose target is the point itself. ``bounds = (lo, hi)`` keeps it in a box.

    >>> problem = analytic(lambda x: torch.stack([x.square().sum(), (x - 1).square().sum()]), variables=3)
    >>> problem.model().weights([0.5, 0.5]).shape
    torch.Size([1, 3])
    """
    objectives = check_objectives(objectives)
    check_number("number of variables", variables, 1, MOST, whole=True, error=ProblemError)
    _check_bounds(bounds, variables)
    source = NoData()
    return Problem(
        objectives=objectives,
        reference=check_reference(reference, objectives),
        units=Units.of(objectives, scale, ideal, maximize),
        measures={},
        scores={},
        sources={"train": source, "val": source, "test": source},
        inputs=lambda batch: (),
        function=function,
        truth=truth,
        identity=identity,
        make_target=lambda: Point(variables, bounds),
    )


@checked
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
        check_number("number of variables", variables, 1, MOST, whole=True, error=ProblemError)
        _check_bounds(bounds, variables)
        self.z = nn.Parameter(torch.zeros(variables))
        low, high = (torch.as_tensor(b, dtype=torch.float32).expand(variables) for b in bounds or (0.0, 0.0))
        self.register_buffer("low", low.clone() if bounds else None)
        self.register_buffer("width", high - low if bounds else None)

    def forward(self) -> Tensor:
        if self.low is None or self.width is None:
            return self.z
        return self.low + self.width * torch.sin(self.z + math.pi / 4).square()


def _check_bounds(bounds: tuple | None, variables: int) -> None:
    try:
        low, high = (torch.as_tensor(b, dtype=torch.float64).expand(variables) for b in bounds or (0.0, 1.0))
        fits = bool(((high - low > 0) & (high - low).isfinite()).all())
    except (TypeError, ValueError, RuntimeError):
        fits = False
    if not fits:
        raise ProblemError(
            "the bounds do not form a box",
            got=shown(bounds),
            expected=f"(lo, hi) with lo < hi, numbers or {variables} numbers each",
        )
