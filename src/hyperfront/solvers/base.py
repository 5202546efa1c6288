"""The contract of solvers, which every method of the field fits: a map from losses and gradients to ``m`` weights per
ray.

    weights, status = solver(losses, rays, gram)    # [R, m], [R, m], [R, m, m] or None  ->  [R, m], uint8 [R]

A solver is pure and batched, runs on the device of its inputs, and never sees parameters, optimizers or data. Weights
sum to 1 per ray where the method allows. ``status`` tells how each ray was solved, so that no fallback is silent.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from enum import IntEnum
from typing import Literal

import torch
from torch import Tensor

from hyperfront.errors import HyperfrontError, check_choice, shown
from hyperfront.errors.signatures import is_plain
from hyperfront.errors.tables import as_numbers
from hyperfront.kernels import on_gpu
from hyperfront.preferences import Convention


class Status(IntEnum):
    """The way a ray was solved."""

    AS_NAMED = 0  # by the method that the solver is named after
    RELAXED = 1  # after dropping a constraint that could not be met
    MIN_NORM = 2  # by the min-norm weights, which descend for all objectives
    FLOORED = 3  # by that method, with a loss of zero; solvers that need positive losses raise it to a small number
    INVALID = 4  # unsolved: a loss is NaN, infinite or negative; the weights are the ray


class Solver(ABC):
    """Losses and rays ``[R, m]``, gram ``[R, m, m]`` or None -> weights ``[R, m]``, status uint8 ``[R]``."""

    needs_gram: bool = False
    """Whether it needs ``gram``: the inner products of the objectives' gradients, ``<g_i, g_j>``."""
    space: Literal["weights", "hypernetwork"] = "weights"
    """The space of these gradients: the generated weights, or the hypernetwork's parameters."""
    positive: bool = False
    """Whether losses must be positive; zeros are raised (:meth:`floored`)."""
    fixed_weights: bool = False
    """Whether the weights depend on the ray alone. Then the gradients of micro-batches add up to the gradient of the
    whole batch. Weights that depend on losses or gradients differ between micro-batches."""
    joint: bool = True
    """Whether the weights of a ray may depend on the losses of the other rays of a step. If not, a step that trains
    rays in turn also solves them in turn."""
    references: tuple[tuple[float, ...], ...] | None = ()
    """The rays among which the solver divides the loss space; None means all rays of the step."""
    convention: Convention = "weights"
    """The meaning of a ray for a model trained with this solver."""

    @property
    def least(self) -> float | Sequence[float] | None:
        """The smallest losses that the solver can use, one number or one for each objective; None for no limit."""
        return 0.0 if self.positive else None

    @abstractmethod
    def __call__(self, losses: Tensor, rays: Tensor, gram: Tensor | None = None) -> tuple[Tensor, Tensor]: ...

    def floored(self, losses: Tensor, rays: Tensor, gram: Tensor | None, floor: Tensor) -> tuple[Tensor, Tensor]:
        """Solve with losses between 0 and ``floor [m]`` raised to the floor; the status marks rays with such losses."""
        low = (losses >= 0) & (losses < floor)
        weights, status = self(torch.where(low, floor, losses.double()), rays, gram)
        floored = low.any(-1) & (status == Status.AS_NAMED)
        return weights, status.masked_fill(floored, Status.FLOORED)


def check_tensor(name: str, value: object) -> None:
    """Raise an error unless the value is a tensor of floating-point numbers."""
    if not is_plain(value) or not value.is_floating_point():  # pyrefly: ignore[missing-attribute]
        raise HyperfrontError(
            f"{name} are no floating-point numbers",
            got=f"a tensor of {value.dtype}" if isinstance(value, Tensor) else shown(value),
            expected="a dense tensor of float32 or float64",
        )


def check_shapes(solver: object, losses: Tensor, rays: Tensor) -> None:
    """Raise an error unless losses and rays are numbers of the same shape, with at least two objectives."""
    check_tensor("losses", losses)
    check_tensor("rays", rays)
    if losses.ndim != 2 or losses.shape[1] < 2 or rays.shape != losses.shape:
        raise HyperfrontError(
            f"{type(solver).__name__} needs one loss for each objective and ray",
            got=f"losses {list(losses.shape)}, rays {list(rays.shape)}",
            expected="both [R, m] with m >= 2",
        )


def check_gram(solver: Solver, losses: Tensor, rays: Tensor, gram: Tensor | None) -> Tensor:
    """Return the Gram matrix in float64, or raise an error for wrong shapes."""
    check_shapes(solver, losses, rays)
    R, m = losses.shape
    if gram is not None:
        check_tensor("products of gradients", gram)
    if gram is None or gram.shape != (R, m, m):
        raise HyperfrontError(
            f"{type(solver).__name__} needs the Gram matrix of the objectives' gradients",
            got=None if gram is None else list(gram.shape),
            expected=[R, m, m],
            fix="gram = grads @ grads.mT with grads [R, m, n]; hyperfront.LS() needs none",
        )
    return gram.detach().to(torch.float64)


def per_objective(name: str, value: float | Sequence[float], losses: Tensor) -> Tensor:
    """Convert one number for all objectives, or one for each, to a tensor ``[m]`` like the losses."""
    table = torch.as_tensor(value, dtype=losses.dtype, device=losses.device)
    m = losses.shape[-1]
    if table.ndim > 1 or (table.ndim == 1 and len(table) != m):
        raise HyperfrontError(f"{name} does not fit the objectives", got=value, expected=f"one number, or {m} of them")
    return table.expand(m)


def check_per_objective(name: str, value: object) -> None:
    """An error unless ``value`` is one finite number for all objectives, or a sequence of one for each."""
    table = as_numbers(name, value)
    if isinstance(value, bool) or table.ndim > 1 or not table.numel() or not table.isfinite().all():
        raise HyperfrontError(
            f"{name} is not understood", got=shown(value), expected="a finite number, or one per objective"
        )


def check_space(solver: Solver) -> None:
    """An error unless the space of the Gram matrix is one that a training step knows."""
    check_choice(f"space of {type(solver).__name__}", solver.space, ("weights", "hypernetwork"))


def meaningful(solver: Solver, losses: Tensor) -> Tensor:
    """Mask the rays ``[R]`` whose losses are all finite and not below the limit of the solver."""
    finite = losses.isfinite().all(-1)
    if solver.least is None:
        return finite
    return finite & (losses >= per_objective("ideal", solver.least, losses)).all(-1)


def rescale(weights: Tensor, otherwise: Tensor) -> Tensor:
    """Scale weights ``[R, m]`` to ``sum_j |w_j| = 1``; return ``otherwise`` where all are zero or one is not finite."""
    total = weights.abs().sum(-1, keepdim=True)
    return torch.where((total > 0) & total.isfinite(), weights / total, otherwise.to(weights.dtype))


def named(valid: Tensor, losses: Tensor) -> Tensor:
    """Return the status ``[R]`` of a solver that never falls back: invalid unless ``valid``; floored if a loss is 0."""
    zero = (losses == 0).any(-1).view(torch.uint8) * int(Status.FLOORED)
    return zero.masked_fill(valid.logical_not(), int(Status.INVALID))


def named_where_finite(losses: Tensor) -> Tensor:
    """Return the status ``[R]`` of a solver that never falls back, for losses ``[R, m]`` that only need to be
    finite."""
    if on_gpu(losses):
        from hyperfront.kernels.gpu.status import status_on_gpu  # needs Triton

        return status_on_gpu(losses, floored=int(Status.FLOORED), invalid=int(Status.INVALID))
    return named(losses.sum(-1) * 0 == 0, losses)  # 0 times NaN or infinity is NaN
