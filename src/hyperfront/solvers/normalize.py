"""Normalization: losses in comparable units, by the range of the front or by their size at the start."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from hyperfront.errors import HyperfrontError, check_number
from hyperfront.errors.signatures import checked
from hyperfront.solvers.base import check_per_objective, check_shapes, per_objective
from hyperfront.solvers.chain import LossTransform


@dataclass(frozen=True)
class Normalize(LossTransform):
    """``l'_j = (l_j - ideal_j) / (nadir_j - ideal_j)``: from 0 to 1 between the ideal and the nadir point.

    The ideal point has the smallest losses of the front, the nadir point its largest. Then rays choose a place between
    the two, independent of the units of the losses.

    >>> Normalize(ideal=1.0, nadir=(3.0, 5.0))(torch.tensor([[2.0, 2.0]]), torch.ones(1, 2))
    (tensor([[0.5000, 0.2500]]), tensor([0.5000, 0.2500]))
    """

    nadir: float | Sequence[float]
    ideal: float | Sequence[float] = 0.0

    shifts = True
    fixed_slopes = True
    joint = False

    def __call__(self, losses: Tensor, rays: Tensor) -> tuple[Tensor, Tensor]:
        check_shapes(self, losses, rays)
        ideal = per_objective("ideal", self.ideal, losses)
        slope = 1 / (per_objective("nadir", self.nadir, losses) - ideal)
        return (losses - ideal) * slope, slope

    def __post_init__(self) -> None:
        check_per_objective("ideal of Normalize", self.ideal)
        check_per_objective("nadir of Normalize", self.nadir)
        ideal, nadir = (torch.as_tensor(value, dtype=torch.float64) for value in (self.ideal, self.nadir))
        if ideal.ndim == nadir.ndim == 1 and len(ideal) != len(nadir):
            raise HyperfrontError("ideal and nadir have different lengths", got=f"{len(ideal)} and {len(nadir)}")
        if not (nadir > ideal).all():
            raise HyperfrontError(
                "the nadir is not above the ideal point",
                got=f"ideal {self.ideal}, nadir {self.nadir}",
                expected="the smallest and the largest losses of the front",
            )


@dataclass(eq=False)
class NormalizeByStart(LossTransform):
    """``l'_j = l_j / l0_j`` with ``l0`` the mean loss over the rays of the first ``steps`` steps.

    Rays with a loss that is NaN or infinite do not count, nor do steps of only such rays. While a mean is 0, its loss
    is not scaled. A mean of 0 or below after these steps is an error.

    >>> normalize = NormalizeByStart()
    >>> normalize(torch.tensor([[1.0, 4.0], [3.0, 4.0]]), torch.ones(2, 2))[1]
    tensor([0.5000, 0.2500])
    """

    steps: int = 1

    def __post_init__(self) -> None:
        check_number("steps of NormalizeByStart", self.steps, 1, whole=True)
        self.load({})

    def __call__(self, losses: Tensor, rays: Tensor) -> tuple[Tensor, Tensor]:
        check_shapes(self, losses, rays)
        if self.seen < self.steps:
            self._add(losses.detach()[losses.isfinite().all(-1)].double())
        if self.mean is None:
            return losses, losses.new_ones(losses.shape[-1])
        slope = 1 / self.mean.where(self.mean > 0, 1.0).to(losses)
        return losses * slope, slope

    def _add(self, losses: Tensor) -> None:
        """Add the finite losses ``[R, m]`` of a step to the mean."""
        if not len(losses):
            return
        now = losses.mean(0)
        mean = now if self.mean is None else self.mean.to(now)
        self.seen += 1
        self.mean = mean + (now - mean) / self.seen
        if self.seen == self.steps and (self.mean <= 0).any():
            raise HyperfrontError(
                "a loss that is zero or negative at the start gives no unit",
                got=f"means {[float(f'{value:.4g}') for value in self.mean.tolist()]} of the first {self.steps}",
                expected="means above 0",
                fix="NormalizeByStart(steps=...) with more steps, or Normalize(nadir=..., ideal=...)",
            )

    def state(self) -> dict[str, Any]:
        return {"seen": self.seen, "mean": self.mean}

    @checked
    def load(self, state: dict[str, Any]) -> None:
        self.seen: int = state.get("seen", 0)
        self.mean: Tensor | None = state.get("mean")
