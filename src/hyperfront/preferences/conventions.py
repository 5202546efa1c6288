"""The meaning of a ray: three conventions, and how to convert between them.

A *ray* ``r`` is a point of the simplex: ``m`` non-negative numbers that sum to 1. ``R`` rays are a tensor ``[R, m]``.
What a ray means depends on the solver that trained the model, and there are three conventions:

============= ============================================= =====================================
convention    the ray fixes                                 solvers
============= ============================================= =====================================
``weights``   the minimizer of ``sum_j r_j l_j``            linear scalarization
``inverse``   the point with ``r_1 l_1 = ... = r_m l_m``    EPO, (smooth) Tchebycheff, uniformity
``direction`` the point with losses parallel to ``r``       PBI, COSMOS, PMTL, HVMax
============= ============================================= =====================================

In all but the last, a larger ``r_j`` asks for a smaller loss ``j``.
"""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor

from hyperfront.errors import HyperfrontError
from hyperfront.errors.signatures import checked

Convention = Literal["weights", "inverse", "direction"]


@checked
def convert(rays: Tensor, source: Convention, to: Convention) -> Tensor:
    """Convert rays from one convention to another: ``inverse`` and ``direction`` are each other's reciprocals.

    The loss weights of linear scalarization are normal to the front, so they cannot be computed without the front:
    train a model with the convention that you need, or take the ray through a known point with :func:`through`.

    >>> convert(torch.tensor([[0.8, 0.2]]), "inverse", "direction")
    tensor([[0.2000, 0.8000]])
    """
    if source == to:
        return rays
    if {source, to} != {"inverse", "direction"}:
        raise HyperfrontError(
            "rays cannot be converted without the front",
            got=f"{source} to {to}",
            expected="inverse to direction, or direction to inverse",
            fix="hyperfront.preferences.through(losses) gives the ray through a known point",
        )
    return through(rays, "inverse")


@checked
def through(losses: Tensor, convention: Convention = "inverse") -> Tensor:
    """Return the ray through the point ``losses [..., m]``: ``r_j ~ 1 / l_j`` (inverse) or ``r_j ~ l_j`` (direction).

    >>> through(torch.tensor([1.0, 3.0]))
    tensor([0.7500, 0.2500])
    """
    if convention == "weights":
        raise HyperfrontError(
            "a point does not determine the loss weights that lead to it", expected="inverse or direction"
        )
    if not losses.is_floating_point() or not losses.ndim:
        raise HyperfrontError(
            "this is no point", got=f"{list(losses.shape)} of {losses.dtype}", expected="losses [..., m]"
        )
    if convention == "direction":
        return torch.softmax(losses.log(), dim=-1)  # in logarithms, so that nothing overflows
    return torch.softmax(-losses.clamp_min(torch.finfo(losses.dtype).tiny).log(), dim=-1)
