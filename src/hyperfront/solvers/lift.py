"""Any differentiable scalarisation as a solver: its weights are the derivative with respect to the losses."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from hyperfront.preferences import Convention
from hyperfront.solvers.base import Solver, Status


@dataclass(frozen=True)
class Lifted(Solver):
    """What :func:`lift` returns."""

    scalarisation: Callable[[Tensor, Tensor], Tensor]
    convention: Convention = "weights"  # pyrefly: ignore[bad-override] (frozen)
    positive: bool = False  # pyrefly: ignore[bad-override] (frozen)

    def __call__(self, losses: Tensor, rays: Tensor, gram: Tensor | None = None) -> tuple[Tensor, Tensor]:
        with torch.enable_grad():
            leaf = losses.detach().requires_grad_()
            # rays are independent, so one derivative of the sum gives each ray its own weights
            (slope,) = torch.autograd.grad(self.scalarisation(leaf, rays.to(leaf.dtype)).sum(), leaf)
        total = slope.abs().sum(-1, keepdim=True)
        weights = torch.where(total > 0, slope / total, rays.to(slope.dtype))
        finite = slope.isfinite().all(-1) & losses.isfinite().all(-1)
        weights = torch.where(finite[:, None], weights, rays.to(slope.dtype))
        return weights, torch.where(finite, Status.AS_NAMED, Status.INVALID).to(torch.uint8)


def lift(
    scalarisation: Callable[[Tensor, Tensor], Tensor], *, convention: Convention = "weights", positive: bool = False
) -> Lifted:
    """A solver from ``f(losses [R, m], rays [R, m]) -> [R]``: weights ``df/dl_j``, scaled so that ``|w|`` sums to 1.

    >>> tchebycheff = lift(lambda losses, rays: (rays * losses).amax(-1), convention="inverse")
    >>> tchebycheff(torch.tensor([[2.0, 1.0]]), torch.tensor([[0.5, 0.5]]))[0]
    tensor([[1., 0.]])
    """
    return Lifted(scalarisation, convention, positive)
