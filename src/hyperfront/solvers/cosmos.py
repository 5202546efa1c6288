"""COSMOS: linear scalarization with a reward for losses along the ray."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor
from torch.nn.functional import cosine_similarity

from hyperfront.errors import check_number
from hyperfront.solvers.base import check_per_objective, per_objective
from hyperfront.solvers.lift import Scalarization


@dataclass(frozen=True)
class COSMOS(Scalarization):
    """``min_theta sum_j r_j l_j - weight cos(l - z, r)`` (Ruchte & Grabocka, ICDM 2021).

    The two terms disagree: for a large ``r_j`` the first term asks for a small ``l_j``, the second for a large one.
    ``weight`` decides between them. It has no default, since no value suits all problems (the paper's range from 0.01
    to 8). Large values give losses parallel to the ray. Weights of losses may be negative.

    >>> import torch
    >>> COSMOS(0.0)(torch.tensor([[2.0, 1.0]]), torch.tensor([[0.3, 0.7]]))[0]
    tensor([[0.3000, 0.7000]])
    """

    weight: float
    ideal: float | tuple[float, ...] = 0.0

    convention = "direction"

    def __post_init__(self) -> None:
        check_number("weight of COSMOS", self.weight, 0)
        check_per_objective("ideal of COSMOS", self.ideal)

    @property
    def least(self) -> float | tuple[float, ...] | None:
        return self.ideal if self.weight else None

    def value(self, losses: Tensor, rays: Tensor) -> Tensor:
        above = losses - per_objective("ideal", self.ideal, losses)
        return (rays * losses).sum(-1) - self.weight * cosine_similarity(above, rays, dim=-1)
