"""Bounds for the weights."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from hyperfront.errors import HyperfrontError, check_number
from hyperfront.solvers.base import check_tensor
from hyperfront.solvers.chain import WeightTransform


@dataclass(frozen=True)
class Clip(WeightTransform):
    """Clips weights to ``low <= w_j <= high``; then the chain scales them to a sum of 1.

    ``low = 0`` keeps solvers with negative weights (PBI, COSMOS, PMTL, HVMax) from raising a loss on purpose, and a
    small positive ``low`` keeps every objective in play.

    >>> import torch
    >>> Clip(low=0.0)(torch.tensor([[0.6, -0.4]]))
    tensor([[0.6000, 0.0000]])
    """

    low: float = 0.0
    high: float | None = None

    joint = False

    def __post_init__(self) -> None:
        for bound in ("low", "high") if self.high is not None else ("low",):
            check_number(f"{bound} of Clip", getattr(self, bound))
        if self.high is not None and not self.low < self.high:
            raise HyperfrontError(
                "the bounds leave no weights", got=f"{self.low} to {self.high}", expected="low < high"
            )

    def __call__(self, weights: Tensor) -> Tensor:
        check_tensor("weights", weights)
        return weights.clamp(float(self.low), None if self.high is None else float(self.high))
