"""Linear scalarization: the ray is the loss weights (PHN-LS, section 4 of the paper)."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from hyperfront.solvers.base import Solver, check_shapes, named_where_finite


@dataclass(frozen=True)
class LS(Solver):
    """``min_theta sum_j r_j l_j(theta)``: cheap and strong, but blind to the concave parts of a front.

    >>> import torch
    >>> weights, status = LS()(torch.tensor([[2.0, 1.0]]), torch.tensor([[0.3, 0.7]]))
    >>> weights
    tensor([[0.3000, 0.7000]])
    """

    fixed_weights = True
    joint = False

    def __call__(self, losses: Tensor, rays: Tensor, gram: Tensor | None = None) -> tuple[Tensor, Tensor]:
        check_shapes(self, losses, rays)
        return rays.to(losses.dtype), named_where_finite(losses)
