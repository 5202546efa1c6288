"""Any differentiable scalarization as a solver: its weights are the derivative with respect to the losses."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import get_args

import torch
from torch import Tensor

from hyperfront.errors import HyperfrontError, check_choice, check_flag
from hyperfront.errors.signatures import checked
from hyperfront.preferences import Convention
from hyperfront.solvers.base import Solver, check_shapes, meaningful, named, rescale


class Scalarization(Solver):
    """A function ``f`` of a ray's losses: the weights are ``df/dl_j``, scaled so that ``|w|`` sums to 1.

    So a step along them lowers ``f``, by the chain rule, at the cost of linear scalarization. Where ``f`` is flat, the
    weights are the ray.
    """

    joint = False

    @abstractmethod
    def value(self, losses: Tensor, rays: Tensor) -> Tensor:
        """Compute ``f(losses [R, m], rays [R, m]) -> [R]``."""

    def __call__(self, losses: Tensor, rays: Tensor, gram: Tensor | None = None) -> tuple[Tensor, Tensor]:
        check_shapes(self, losses, rays)
        with torch.enable_grad():
            leaf = losses.detach().requires_grad_()
            # rays are independent, so one derivative of the sum gives each ray its own weights
            (slope,) = torch.autograd.grad(self.value(leaf, rays.to(leaf.dtype)).sum(), leaf)
        valid = slope.isfinite().all(-1) & meaningful(self, losses)
        weights = torch.where(valid[:, None], rescale(slope, rays), rays.to(slope.dtype))
        return weights, named(valid, losses)


@dataclass(frozen=True)
class Lifted(Scalarization):
    """The result of :func:`lift`."""

    scalarization: Callable[[Tensor, Tensor], Tensor]
    convention: Convention = "weights"  # pyrefly: ignore[bad-override] (frozen)
    positive: bool = False  # pyrefly: ignore[bad-override] (frozen)

    def value(self, losses: Tensor, rays: Tensor) -> Tensor:
        return self.scalarization(losses, rays)


@checked
def lift(
    scalarization: Callable[[Tensor, Tensor], Tensor], *, convention: Convention = "weights", positive: bool = False
) -> Lifted:
    """Make a solver from ``f(losses [R, m], rays [R, m]) -> [R]``: weights ``df/dl_j``, scaled so that ``|w|`` sums to
    1.

    >>> tchebycheff = lift(lambda losses, rays: (rays * losses).amax(-1), convention="inverse")
    >>> tchebycheff(torch.tensor([[2.0, 1.0]]), torch.tensor([[0.5, 0.5]]))[0]
    tensor([[1., 0.]])
    """
    if not callable(scalarization):
        raise HyperfrontError("only a function can be lifted", got=repr(scalarization), expected="f(losses, rays)")
    check_choice("convention", convention, get_args(Convention))
    check_flag("positive", positive)
    return Lifted(scalarization, convention, positive)
