"""The one contract that every method of the field fits: a map from what a step knows to ``m`` weights per ray.

    weights, status = solver(losses, rays, gram)    # [R, m], [R, m], [R, m, m] or None  ->  [R, m], uint8 [R]

A solver is pure and batched, runs where its inputs are, and never sees parameters, optimisers or data. Weights sum to 1
per ray where the method allows. ``status`` says how each ray was solved, so that nothing falls back in silence.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from enum import IntEnum
from typing import Literal

from torch import Tensor

from hyperfront.preferences import Convention


class Status(IntEnum):
    """How a ray was solved."""

    AS_NAMED = 0  # by the method that the solver is named after
    RELAXED = 1  # after dropping a constraint that could not be met
    MIN_NORM = 2  # by the min-norm weights, which descend for all objectives
    FLOORED = 3  # as named, with a loss of zero lifted to a small positive number
    INVALID = 4  # not at all: a loss is NaN, infinite or negative; the weights are the ray


class Solver(ABC):
    """Losses and rays ``[R, m]``, gram ``[R, m, m]`` or None -> weights ``[R, m]``, status uint8 ``[R]``."""

    needs_gram: bool = False
    """Whether ``gram`` is wanted: the inner products of the objectives' gradients, ``<g_i, g_j>``."""
    space: Literal["weights", "hypernetwork"] = "weights"
    """Where those gradients live: with respect to the generated weights, or to the hypernetwork's parameters."""
    positive: bool = False
    """Whether losses must be positive."""
    convention: Convention = "weights"
    """What a ray means to a model trained with this solver."""

    @abstractmethod
    def __call__(self, losses: Tensor, rays: Tensor, gram: Tensor | None = None) -> tuple[Tensor, Tensor]: ...
