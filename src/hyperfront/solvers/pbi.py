"""Penalty-based boundary intersection: lower the losses along the ray, and penalize their distance from it."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor
from torch.nn.functional import normalize

from hyperfront.errors import check_number
from hyperfront.solvers.base import check_per_objective, per_objective
from hyperfront.solvers.lift import Scalarization


@dataclass(frozen=True)
class PBI(Scalarization):
    """``min_theta d_1 + theta d_2`` (Zhang & Li, 2007; ``theta`` is the ``penalty``).

    With the ideal point ``z`` and the unit vector ``u`` along the ray,

        d_1 = (l - z) . u                       the distance along the ray
        d_2 = |(l - z) - d_1 u|                 the distance from the ray

    so the losses end parallel to the ray. A front that is concave, or oblique to the ray, needs a large penalty. A
    weight is negative where the ray asks for a larger loss, since the penalty applies on both sides of the ray.

    >>> import torch
    >>> PBI()(torch.tensor([[2.0, 2.0], [2.0, 1.0]]), torch.tensor([[0.5, 0.5], [0.5, 0.5]]))[0]
    tensor([[ 0.5000,  0.5000],
            [ 0.6000, -0.4000]])
    """

    penalty: float = 5.0
    ideal: float | tuple[float, ...] = 0.0

    convention = "direction"

    def __post_init__(self) -> None:
        check_number("penalty of PBI", self.penalty, 0)
        check_per_objective("ideal of PBI", self.ideal)

    @property
    def least(self) -> float | tuple[float, ...]:
        return self.ideal

    def value(self, losses: Tensor, rays: Tensor) -> Tensor:
        above = losses - per_objective("ideal", self.ideal, losses)
        along = normalize(rays, dim=-1)
        d1 = (above * along).sum(-1)
        # the derivative of the norm at 0 is taken as 0: the penalty vanishes on the ray
        return d1 + self.penalty * (above - d1[:, None] * along).norm(dim=-1)
