"""The one contract that every method of the field fits: a map from what a step knows to ``m`` weights per ray.

    weights, status = solver(losses, rays, gram)    # [R, m], [R, m], [R, m, m] or None  ->  [R, m], uint8 [R]

A solver is pure and batched, runs where its inputs are, and never sees parameters, optimizers or data. Weights sum to 1
per ray where the method allows. ``status`` says how each ray was solved, so that nothing falls back in silence.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from enum import IntEnum
from typing import Literal

import torch
from torch import Tensor

from hyperfront.errors import HyperfrontError
from hyperfront.kernels import on_gpu
from hyperfront.preferences import Convention


class Status(IntEnum):
    """How a ray was solved."""

    AS_NAMED = 0  # by the method that the solver is named after
    RELAXED = 1  # after dropping a constraint that could not be met
    MIN_NORM = 2  # by the min-norm weights, which descend for all objectives
    FLOORED = 3  # as named, with a loss of zero, which solvers that need a positive one raise to a small number
    INVALID = 4  # not at all: a loss is NaN, infinite or negative; the weights are the ray


class Solver(ABC):
    """Losses and rays ``[R, m]``, gram ``[R, m, m]`` or None -> weights ``[R, m]``, status uint8 ``[R]``."""

    needs_gram: bool = False
    """Whether ``gram`` is wanted: the inner products of the objectives' gradients, ``<g_i, g_j>``."""
    space: Literal["weights", "hypernetwork"] = "weights"
    """Where those gradients live: with respect to the generated weights, or to the hypernetwork's parameters."""
    positive: bool = False
    """Whether losses must be positive; zeros are raised (:meth:`floored`)."""
    fixed_weights: bool = False
    """Whether the weights follow from the ray alone. Then the gradients of micro-batches add up to that of the whole
    batch; weights that depend on losses or gradients differ from one micro-batch to the next."""
    joint: bool = True
    """Whether the weights of a ray may depend on the losses of the other rays of a step. Rays of other solvers are
    solved one by one where they are trained one after the other."""
    convention: Convention = "weights"
    """What a ray means to a model trained with this solver."""

    @property
    def least(self) -> float | Sequence[float] | None:
        """Losses below this, one number or one for each objective, mean nothing to the solver; None: all losses do."""
        return 0.0 if self.positive else None

    @abstractmethod
    def __call__(self, losses: Tensor, rays: Tensor, gram: Tensor | None = None) -> tuple[Tensor, Tensor]: ...

    def floored(self, losses: Tensor, rays: Tensor, gram: Tensor | None, floor: Tensor) -> tuple[Tensor, Tensor]:
        """The same with losses between 0 and ``floor [m]`` raised to it; the status says which rays have one."""
        low = (losses >= 0) & (losses < floor)
        weights, status = self(torch.where(low, floor, losses.double()), rays, gram)
        floored = low.any(-1) & (status == Status.AS_NAMED)
        return weights, status.masked_fill(floored, Status.FLOORED)


def check_shapes(solver: Solver, losses: Tensor, rays: Tensor) -> None:
    """An error, unless there are a loss and a ray's entry for each of at least two objectives."""
    if losses.ndim != 2 or losses.shape[1] < 2 or rays.shape != losses.shape:
        raise HyperfrontError(
            f"{type(solver).__name__} needs one loss for each objective and ray",
            got=f"losses {list(losses.shape)}, rays {list(rays.shape)}",
            expected="both [R, m] with m >= 2",
        )


def check_gram(solver: Solver, losses: Tensor, rays: Tensor, gram: Tensor | None) -> Tensor:
    """The Gram matrix in float64, or an error about shapes."""
    check_shapes(solver, losses, rays)
    R, m = losses.shape
    if gram is None or gram.shape != (R, m, m):
        raise HyperfrontError(
            f"{type(solver).__name__} needs the Gram matrix of the objectives' gradients",
            got=None if gram is None else list(gram.shape),
            expected=[R, m, m],
            fix="gram = grads @ grads.mT with grads [R, m, n]; hyperfront.LS() needs none",
        )
    return gram.detach().to(torch.float64)


def per_objective(name: str, value: float | Sequence[float], losses: Tensor) -> Tensor:
    """One number for all objectives, or one for each, as a tensor ``[m]`` like the losses."""
    table = torch.as_tensor(value, dtype=losses.dtype, device=losses.device)
    m = losses.shape[-1]
    if table.ndim > 1 or (table.ndim == 1 and len(table) != m):
        raise HyperfrontError(f"{name} does not fit the objectives", got=value, expected=f"one number, or {m} of them")
    return table.expand(m)


def meaningful(solver: Solver, losses: Tensor) -> Tensor:
    """Which rays ``[R]`` have losses that are finite, and none below what the solver can work with."""
    finite = losses.isfinite().all(-1)
    if solver.least is None:
        return finite
    return finite & (losses >= per_objective("ideal", solver.least, losses)).all(-1)


def rescale(weights: Tensor, otherwise: Tensor) -> Tensor:
    """The weights ``[R, m]`` with ``sum_j |w_j| = 1``; ``otherwise`` where they are all zero or not finite."""
    total = weights.abs().sum(-1, keepdim=True)
    return torch.where((total > 0) & total.isfinite(), weights / total, otherwise.to(weights.dtype))


def named(valid: Tensor, losses: Tensor) -> Tensor:
    """The status ``[R]`` of a solver that never falls back: as named where ``valid``, else invalid."""
    zero = (losses == 0).any(-1).view(torch.uint8) * int(Status.FLOORED)
    return zero.masked_fill(valid.logical_not(), int(Status.INVALID))


def named_where_finite(losses: Tensor) -> Tensor:
    """The same for losses ``[R, m]`` that only need to be finite."""
    if on_gpu(losses):
        from hyperfront.kernels.gpu.status import status_on_gpu  # needs Triton

        return status_on_gpu(losses, floored=int(Status.FLOORED), invalid=int(Status.INVALID))
    return named(losses.sum(-1) * 0 == 0, losses)  # of what is not finite that is NaN
