"""Losses below the ideal of their objective, for solvers that measure losses from an ideal (:attr:`Solver.least`).

====================================== =============================================================================
a loss below its ideal                 what happens
====================================== =============================================================================
by rounding                            It is raised to the ideal and counted as floored.
at the first step                      It is an error: the ideal is wrong.
later                                  It is raised and counted. A warning tells if the mean of an epoch is below.
without a given ideal (below 0)        It is an error at that step.
====================================== =============================================================================

``supervised(..., ideal=)`` or the solver's own ``ideal`` gives an ideal. By these rules, a run continues when it finds
losses that are better than the supposed best ones.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from hyperfront.problem.units import Units
from hyperfront.solvers import Solver, Status
from hyperfront.solvers.base import per_objective

ROUNDING = 1e-5
"""A loss below an ideal by this share of the ideal is due to rounding: long sums lose some eighty steps of float32."""


class Ideals:
    """The ideals of a problem's objectives, in the units of the solver."""

    def __init__(self, objectives: tuple[str, ...], units: Units, solver: Solver, device: torch.device):
        self.objectives, self.solver = objectives, solver
        zeros = torch.zeros(1, len(objectives), dtype=torch.float64)
        own = zeros[0] if solver.least is None else per_objective("ideal", solver.least, zeros)
        ideal, scale = (torch.tensor(values, dtype=torch.float64) for values in (units.ideal, units.scale))
        self.least, self.slack = own, ROUNDING * (ideal.abs() / scale + own.abs())
        self.given = (ideal != 0) | (own != 0) | torch.tensor(units.maximize)
        self.matter = solver.least is not None and bool(self.given.any())
        self.told = False
        self.around = Raising(solver, self.least.to(device), self.given.to(device)) if self.matter else solver
        """The solver; losses below a given ideal are raised before it sees them."""

    def without_rounding(self, losses: Tensor) -> Tensor:
        """Raise losses ``[R, m]`` that are below an ideal by rounding to the ideal."""
        if not self.matter:
            return losses
        least, slack, given = (tensor.to(losses.device) for tensor in (self.least, self.slack, self.given))
        return torch.where(given & (losses < least) & (losses >= least - slack), least.to(losses.dtype), losses)

    def warn(self, means: Mapping[str, float]) -> None:
        """Warn once if the mean loss of an epoch is below an ideal: then the ideal is wrong."""
        found = torch.tensor([means[name] for name in self.objectives], dtype=torch.float64)
        below = self.given & (found < self.least - self.slack)
        if self.told or not self.matter or not below.any():
            return
        self.told = True
        names = ", ".join(name for name, flag in zip(self.objectives, below.tolist()) if flag)
        warnings.warn(
            f"the mean loss of an epoch is below the ideal of {names}: losses below an ideal count as zero, so rays "
            "cannot tell them apart; pass a smaller ideal=",
            stacklevel=4,
        )


@dataclass(frozen=True)
class Raising(Solver):
    """Wraps a solver: losses below ``ideal [m]`` are raised to it where an ideal is ``given [m]``."""

    solver: Solver
    ideal: Tensor
    given: Tensor

    @property
    def needs_gram(self) -> bool:  # pyrefly: ignore[bad-override]
        return self.solver.needs_gram

    @property
    def space(self) -> str:  # pyrefly: ignore[bad-override]
        return self.solver.space

    @property
    def positive(self) -> bool:  # pyrefly: ignore[bad-override]
        return self.solver.positive

    @property
    def joint(self) -> bool:  # pyrefly: ignore[bad-override]
        return self.solver.joint

    @property
    def convention(self) -> str:  # pyrefly: ignore[bad-override]
        return self.solver.convention

    def __call__(self, losses: Tensor, rays: Tensor, gram: Tensor | None = None) -> tuple[Tensor, Tensor]:
        raised, low = self._raised(losses)
        weights, status = self.solver(raised, rays, gram)
        return weights, _counted(status, low)

    def floored(self, losses: Tensor, rays: Tensor, gram: Tensor | None, floor: Tensor) -> tuple[Tensor, Tensor]:
        raised, low = self._raised(losses)
        weights, status = self.solver.floored(raised, rays, gram, floor)
        return weights, _counted(status, low)

    def _raised(self, losses: Tensor) -> tuple[Tensor, Tensor]:
        low = self.given & (losses < self.ideal)
        return torch.where(low, self.ideal.to(losses.dtype), losses), low.any(-1)


def _counted(status: Tensor, low: Tensor) -> Tensor:
    return status.masked_fill(low & (status == Status.AS_NAMED), int(Status.FLOORED))
