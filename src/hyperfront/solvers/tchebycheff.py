"""Tchebycheff scalarization: lower the worst of the weighted losses."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from hyperfront.solvers.base import check_per_objective, per_objective
from hyperfront.solvers.lift import Scalarization


@dataclass(frozen=True)
class Tchebycheff(Scalarization):
    """``min_theta max_j r_j (l_j - z_j)`` with the ideal point ``z`` (Bowman, 1976; Miettinen, 1998).

    Every point of a front, convex or not, is the minimizer for some ray; where the ray meets the front, it is the point
    with ``r_1 (l_1 - z_1) = ... = r_m (l_m - z_m)``. All the weight is on the worst objective (shared by ties), so the
    path zigzags around that line, and needs small steps at the end.

    >>> import torch
    >>> Tchebycheff()(torch.tensor([[2.0, 1.0]]), torch.tensor([[0.3, 0.7]]))[0]
    tensor([[0., 1.]])
    """

    ideal: float | tuple[float, ...] = 0.0

    convention = "inverse"

    def __post_init__(self) -> None:
        check_per_objective("ideal of Tchebycheff", self.ideal)

    @property
    def least(self) -> float | tuple[float, ...]:
        return self.ideal

    def value(self, losses: Tensor, rays: Tensor) -> Tensor:
        return (rays * (losses - per_objective("ideal", self.ideal, losses))).amax(-1)
