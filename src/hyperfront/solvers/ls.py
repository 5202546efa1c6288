"""Linear scalarisation: the ray is the loss weights (PHN-LS, section 4 of the paper)."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from hyperfront.solvers.base import Solver, Status


@dataclass(frozen=True)
class LS(Solver):
    """``min_theta sum_j r_j l_j(theta)``: cheap and strong, but blind to the concave parts of a front.

    >>> weights, status = LS()(torch.tensor([[2.0, 1.0]]), torch.tensor([[0.3, 0.7]]))
    >>> weights
    tensor([[0.3000, 0.7000]])
    """

    def __call__(self, losses: Tensor, rays: Tensor, gram: Tensor | None = None) -> tuple[Tensor, Tensor]:
        finite = losses.isfinite().all(-1)
        return rays.to(losses.dtype), torch.where(finite, Status.AS_NAMED, Status.INVALID).to(torch.uint8)
