"""Indicators: numbers that say how good a front is. Losses ``[R, m]`` are minimized.

All indicators take tensors, arrays or nested sequences of finite numbers. Indicators per ray keep leading dimensions.

The hypervolume and IGD+ come from moocore, which is imported at the first call.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from hyperfront.errors import ProblemError, check_number, shown
from hyperfront.errors.tables import as_numbers, as_table

Points = Tensor | np.ndarray | Sequence
PAIRS = 10**7
"""Numbers that are compared at once, which bounds memory."""


def hypervolume(losses: Points, reference: Points) -> float:
    """Compute the volume of the region that the points dominate, up to the reference point (Zitzler & Thiele, 1999).

    Points that are not below the reference in all objectives contribute nothing.

    >>> hypervolume(torch.tensor([[0.0, 1.0], [1.0, 0.0]]), (2.0, 2.0))
    3.0
    """
    import moocore

    points, corner = _points("losses", losses), as_numbers("reference", reference, error=ProblemError).detach().double()
    if corner.shape != points.shape[1:] or not corner.isfinite().all():
        raise ProblemError(
            "the reference point does not fit the objectives",
            got=f"losses {list(points.shape)}, reference {shown(corner)}",
            expected="losses [R, m] and a reference of m finite numbers, one for each objective",
        )
    below = points[(points < corner).all(-1)]  # moocore takes no points at all only so
    return float(moocore.hypervolume(below.numpy(), ref=corner.numpy())) if len(below) else 0.0


def nonuniformity(losses: Points, rays: Points, *, base: float = math.e) -> Tensor:
    """``mu_r(l) = KL(p || 1/m)`` with ``p_j = r_j l_j / sum_i r_i l_i`` (section 5 of the paper), ``[R]``.

    A term with ``p_j = 0`` is 0; where all products vanish, all shares are equal. Where a product is negative, shares
    are undefined, and the value is the worst one, ``ln m``. ``base`` is the base of the logarithm.
    """
    product = _product(losses, rays)
    _check_base(base)
    m, vanish = product.shape[-1], (product == 0).all(-1, keepdim=True)
    share = torch.where(vanish, 1 / m, product / product.sum(-1, keepdim=True))
    divergence = torch.xlogy(share, share).sum(-1) + math.log(m)
    return torch.where((product < 0).any(-1), math.log(m), divergence) / math.log(base)


def uniformity(losses: Points, rays: Points, *, base: float = math.e) -> Tensor:
    """``1 - mu_r(l)`` per ray, ``[R]``: 1 where the losses lie on the inverse ray, at least ``1 - log m``.

    >>> uniformity(torch.tensor([[0.2, 0.8], [1.0, 0.0]]), torch.tensor([[0.8, 0.2], [0.5, 0.5]]), base=2)
    tensor([1., 0.], dtype=torch.float64)
    """
    return 1 - nonuniformity(losses, rays, base=base)


def attainable_uniformity(rays: Points, pool: Points, *, base: float = math.e) -> Tensor:
    """Return the best uniformity that a non-dominated point of ``pool [K, m]`` has at each ray, ``[R]``.

    Where the front does not meet the inverse ray, no method reaches 1 with a good point, while bad points can be as
    uniform as one likes, by raising the losses that are too small. So compare uniformities with this value, not with
    1. The pool should hold the points of all methods.

    >>> pool = torch.tensor([[0.2, 0.8], [0.5, 0.5], [0.9, 0.9]])
    >>> attainable_uniformity(torch.tensor([[0.8, 0.2], [0.3, 0.7]]), pool, base=2)
    tensor([1.0000, 0.8813], dtype=torch.float64)
    """
    points = _points("points of the pool", pool)
    each = as_table("rays", rays, error=ProblemError)
    if not len(points):
        raise ProblemError("the pool has no points", expected="[K, m] with K >= 1")
    return uniformity(points[nondominated(points)], each[:, None], base=base).amax(-1)


def controllability(losses: Points, rays: Points, pool: Points) -> Tensor:
    """Compare the uniformity of losses with the best attainable uniformity at each ray, ``[R]``, from 0 to 1.

    A ratio of uniformities ``1 - mu`` would depend on the base of the logarithm, and have the wrong sign where they are
    negative. Minus the least possible uniformity, ``1 - ln m``, uniformities are entropies of ``p_j ~ r_j l_j``, whose
    ratio is the same in every base:

        (ln m - mu_r(l)) / (ln m - min mu_r(l'))        over the non-dominated points l' of the pool

    A dominated point that is more uniform than all non-dominated points counts as 1.

    >>> controllability(torch.tensor([[0.4, 0.6]]), torch.tensor([[0.8, 0.2]]), torch.tensor([[0.2, 0.8]]))
    tensor([0.8454], dtype=torch.float64)
    """
    m = _product(losses, rays).shape[-1]
    entropy, best = uniformity(losses, rays, base=m), attainable_uniformity(rays, pool, base=m)
    return torch.where(best > 0, entropy / best, 1.0).clamp(0, 1)


def cross_angle(losses: Points, rays: Points) -> Tensor:
    """Measure the angle in degrees between losses and ray, ``[R]``: the error of solvers with ``direction`` rays."""
    _product(losses, rays)
    points, each = (as_numbers("losses and rays", t).double() for t in (losses, rays))
    return torch.rad2deg(torch.acos(torch.cosine_similarity(points, each, dim=-1).clamp(-1, 1)))


def igd_plus(losses: Points, truth: Points) -> float:
    """Compute the mean distance from the true front to the region that the points dominate (IGD+, Ishibuchi et al.,
    2015).

    >>> igd_plus(torch.tensor([[0.0, 0.0]]), torch.tensor([[0.0, 1.0], [1.0, 0.0]]))
    0.0
    """
    import moocore

    points, wanted = _points("losses", losses), _points("points of the true front", truth)
    if not len(points) or not len(wanted) or points.shape[1] != wanted.shape[1]:
        raise ProblemError(
            "the points do not fit the true front",
            got=f"losses {list(points.shape)}, true front {list(wanted.shape)}",
            expected="[R, m] and [K, m] with R, K >= 1",
        )
    return float(moocore.igd_plus(points.numpy(), ref=wanted.numpy()))


def spacing(losses: Points) -> float:
    """Compute the standard deviation of the L1 distance to the nearest other point (Schott, 1995), which is 0 for
    evenly spaced points.

    >>> spacing(torch.tensor([[0.0, 2.0], [1.0, 1.0], [2.0, 0.0]]))
    0.0
    """
    from scipy.spatial import KDTree

    points = _points("losses", losses).numpy()
    size = abs(points).max(initial=0.0)
    if len(points) < 2 or size == 0:
        return 0.0
    distance, _ = KDTree(points / size).query(points / size, k=2, p=1)  # squares of large losses are infinite
    return float(distance[:, 1].std(ddof=1) * size)


def nondominated(losses: Points) -> Tensor:
    """Mask ``[R]`` the points that no other point dominates (no worse in any objective, better in at least one).

    >>> nondominated(torch.tensor([[0.0, 1.0], [1.0, 0.0], [1.0, 1.0]]))
    tensor([ True,  True, False])
    """
    points = as_numbers("losses", losses, error=ProblemError)
    if points.ndim != 2 or not points.shape[1]:
        raise ProblemError("losses have the wrong shape", got=list(points.shape), expected="[R, m]")
    dominated = [_dominated(part, points) for part in points.split(max(1, PAIRS // max(1, points.numel())))]
    return ~torch.cat(dominated)


def nondominated_share(losses: Points) -> float:
    """Return the number of different non-dominated points as a share of all points; copies of a point count once.

    >>> nondominated_share(torch.tensor([[0.0, 1.0], [0.0, 1.0], [1.0, 0.0], [1.0, 1.0]]))
    0.5
    """
    points = _points("losses", losses)
    if not len(points):
        raise ProblemError("there are no points", expected="losses [R, m] with R >= 1")
    return int(nondominated(points.unique(dim=0)).sum()) / len(points)


def _dominated(part: Tensor, points: Tensor) -> Tensor:
    """Mask the points of ``part [P, m]`` that one of ``points [R, m]`` dominates."""
    no_worse = (points[:, None] <= part[None]).all(-1)  # [i, j]: i is no worse than j
    better = (points[:, None] < part[None]).any(-1)
    return (no_worse & better).any(0)


def _points(name: str, values: Points) -> Tensor:
    """Finite points ``[R, m]`` in float64 on the CPU."""
    points = as_table(name, values, error=ProblemError)
    if not points.shape[1] or not points.isfinite().all():
        raise ProblemError(
            f"{name} are not finite", got=f"shape {list(points.shape)}", expected="finite numbers [R, m] with m >= 1"
        )
    return points


def _product(losses: Points, rays: Points) -> Tensor:
    """The products ``r_j l_j``, or an error if the shapes do not fit."""
    first, second = (as_numbers(name, t, error=ProblemError) for name, t in (("losses", losses), ("rays", rays)))
    try:
        product = first.double() * second.double()
    except RuntimeError:
        product = torch.empty(0, 0)
    if first.ndim < 1 or second.ndim < 1 or product.shape[-1] != first.shape[-1] or first.shape[-1] != second.shape[-1]:
        raise ProblemError(
            "losses and rays do not fit together",
            got=f"losses {list(first.shape)}, rays {list(second.shape)}",
            expected="both [R, m]",
        )
    if product.shape[-1] < 2:
        raise ProblemError("there are too few objectives", got=product.shape[-1], expected="at least 2")
    return product


def _check_base(base: float) -> None:
    check_number("base of the logarithm", base, 1, without=1)
