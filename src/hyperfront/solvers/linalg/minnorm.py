"""The shortest vector in the convex hull of the gradients: MGDA's direction, exact and batched."""

from __future__ import annotations

import torch
from torch import Tensor

ROUNDING = 1e-11  # smaller violations of a bound, in units of the gradient's length, do not count
RIDGE = 1e-14  # relative weight on the diagonal: parallel gradients must not divide by zero


def min_norm(gram: Tensor) -> Tensor:
    """Find ``argmin ||sum_j alpha_j g_j||^2`` over the simplex, from the Gram matrix ``C_ij = <g_i, g_j>``.

    ``gram [R, m, m]`` -> ``alpha [R, m]`` float64. At the optimum ``C alpha >= alpha^T C alpha``: a step along it
    lowers all objectives, unless it is zero (Desideri, 2012). For two objectives

        alpha_1 = (c22 - c12) / (c11 + c22 - 2 c12), clipped to [0, 1],

    without any read from the device. More objectives are solved by :func:`active_set`.

    >>> min_norm(torch.tensor([[[1.0, 0.0], [0.0, 3.0]]]))
    tensor([[0.7500, 0.2500]], dtype=torch.float64)
    """
    gram = gram.to(torch.float64)
    if gram.shape[-1] > 2:
        return active_set(gram)
    one, two, cross = gram[:, 0, 0], gram[:, 1, 1], gram[:, 0, 1]
    length = one + two - 2 * cross
    share = torch.where(length > 0, (two - cross) / length, 0.5).clamp(0, 1)
    return torch.stack([share, 1 - share], -1)


def active_set(gram: Tensor) -> Tensor:
    """Find the same for any ``m``, by the active set method of Lawson and Hanson (1974), all problems in lock-step.

    With ``K = C + 1 1^T`` it is the non-negative least squares problem ``min x^T K x / 2 - sum x``, ``x >= 0``: at its
    solution ``w = 1 - K x <= 0`` and ``x^T w = 0``, which for ``alpha = x / sum x`` is ``C alpha >= alpha^T C alpha``.
    """
    m = gram.shape[1]
    eye = torch.eye(m, dtype=gram.dtype, device=gram.device)
    squares = gram.diagonal(dim1=1, dim2=2)
    # in units of the shortest gradient the optimum is in [0, 1], however unequal the gradients are
    least, first = squares.min(1)
    unit = torch.where(least > 0, least, squares.amax(1))
    unit = torch.where(unit > 0, unit, 1)[:, None]
    kernel = gram / unit[..., None] + 1 + RIDGE * torch.diag_embed(squares / unit)
    rounding = ROUNDING * (1 + (squares / unit).sqrt())
    x = torch.zeros_like(squares)
    support = eye.bool()[first]
    for _ in range(6 * m):
        inside = support[:, :, None] & support[:, None]
        goal = torch.linalg.solve_ex(torch.where(inside, kernel, eye), support.to(gram.dtype))[0]
        # move towards the optimum of this support as far as x >= 0 allows; the entry that stops it leaves the support
        stops = torch.where(support & (goal <= 0), x / (x - goal), torch.inf)
        step = stops.amin(1, keepdim=True)
        x = torch.where(step < 1, x + step * (goal - x), goal)
        leaves = (stops <= step) & (step < 1)
        x = torch.where(leaves, 0, x)
        miss, worst = torch.where(support, 0, (1 - (kernel @ x[..., None])[..., 0]) / rounding).max(1)
        enters = eye.bool()[worst] & (miss > 1)[:, None] & (step >= 1)
        if not (leaves | enters).any():
            break
        support = support & ~leaves | enters
    alpha = x / x.sum(1, keepdim=True)
    # a matrix that is no Gram matrix has no such point: take the shortest gradient
    return torch.where(((alpha >= 0) & (alpha <= 1)).all(1, keepdim=True), alpha, eye[first])
