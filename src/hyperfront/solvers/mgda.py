"""Multiple gradient descent: lower all objectives at once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from hyperfront.solvers.base import Solver, check_gram, check_space, named
from hyperfront.solvers.linalg.minnorm import min_norm


@dataclass(frozen=True)
class MGDA(Solver):
    """The shortest convex combination of the gradients (Desideri, 2012; Sener & Koltun, NeurIPS 2018):

        min_w |sum_j w_j g_j|^2    over the simplex

    No objective rises, to first order, and the combination is zero exactly at Pareto stationary points. These may be
    only weakly optimal: MGDA stops when one objective is at a minimum, even if the others could still fall. It is exact
    for any number of objectives (:mod:`hyperfront.solvers.linalg.minnorm`). It ignores the ray, so the place on the
    front is left to chance, and MGDA is a baseline only. Its convention is ``weights``, which promises no place.

    >>> MGDA()(torch.ones(1, 2), torch.full((1, 2), 0.5), torch.tensor([[[1.0, 0.0], [0.0, 3.0]]]))[0]
    tensor([[0.7500, 0.2500]])
    """

    space: Literal["weights", "hypernetwork"] = "weights"  # pyrefly: ignore[bad-override] (frozen)

    needs_gram = True
    joint = False

    def __post_init__(self) -> None:
        check_space(self)

    def __call__(self, losses: Tensor, rays: Tensor, gram: Tensor | None = None) -> tuple[Tensor, Tensor]:
        gram = check_gram(self, losses, rays, gram)
        finite = gram.isfinite().all(-1).all(-1) & losses.isfinite().all(-1)
        alpha = min_norm(gram.masked_fill(~finite[:, None, None], 0))
        return torch.where(finite[:, None], alpha, rays).to(losses.dtype), named(finite, losses)
