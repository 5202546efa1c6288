"""Indicators: numbers that say how good a front is. Losses ``[R, m]`` are minimized.

All indicators take tensors or arrays.

The hypervolume and IGD+ come from moocore, which is imported at the first call.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from hyperfront.errors import ProblemError


def hypervolume(losses: Tensor, reference: Tensor | tuple[float, ...]) -> float:
    """Compute the volume of the region that the points dominate, up to the reference point (Zitzler & Thiele, 1999).

    Points that are not below the reference in all objectives contribute nothing.

    >>> hypervolume(torch.tensor([[0.0, 1.0], [1.0, 0.0]]), (2.0, 2.0))
    3.0
    """
    import moocore

    points = torch.as_tensor(losses, dtype=torch.float64, device="cpu").detach()
    reference = torch.as_tensor(reference, dtype=torch.float64)
    if points.ndim != 2 or reference.shape != points.shape[1:]:
        raise ProblemError(
            "the reference point does not fit the objectives",
            got=f"losses {list(points.shape)}, reference {list(reference.shape)}",
            expected="losses [R, m] and a reference of m numbers, one for each objective",
        )
    return float(moocore.hypervolume(points.numpy(), ref=reference.numpy()))


def nonuniformity(losses: Tensor, rays: Tensor, *, base: float = math.e) -> Tensor:
    """``mu_r(l) = KL(p || 1/m)`` with ``p_j = r_j l_j / sum_i r_i l_i`` (section 5 of the paper), ``[R]``.

    A term with ``p_j = 0`` is 0; where all products vanish, all shares are equal. Where a product is negative, shares
    are undefined, and the value is the worst one, ``ln m``. ``base`` is the base of the logarithm.
    """
    product = torch.as_tensor(losses, dtype=torch.float64) * torch.as_tensor(rays, dtype=torch.float64)
    m, vanish = product.shape[-1], (product == 0).all(-1, keepdim=True)
    share = torch.where(vanish, 1 / m, product / product.sum(-1, keepdim=True))
    divergence = torch.xlogy(share, share).sum(-1) + math.log(m)
    return torch.where((product < 0).any(-1), math.log(m), divergence) / math.log(base)


def uniformity(losses: Tensor, rays: Tensor, *, base: float = math.e) -> Tensor:
    """``1 - mu_r(l)`` per ray, ``[R]``: 1 where the losses lie on the inverse ray, at least ``1 - log m``.

    >>> uniformity(torch.tensor([[0.2, 0.8], [1.0, 0.0]]), torch.tensor([[0.8, 0.2], [0.5, 0.5]]), base=2)
    tensor([1., 0.], dtype=torch.float64)
    """
    return 1 - nonuniformity(losses, rays, base=base)


def attainable_uniformity(rays: Tensor, pool: Tensor, *, base: float = math.e) -> Tensor:
    """Return the best uniformity that a non-dominated point of ``pool [K, m]`` has at each ray, ``[R]``.

    Where the front does not meet the inverse ray, no method reaches 1 with a good point, while bad points can be as
    uniform as one likes, by raising the losses that are too small. So compare uniformities with this value, not with
    1. The pool should hold the points of all methods.

    >>> pool = torch.tensor([[0.2, 0.8], [0.5, 0.5], [0.9, 0.9]])
    >>> attainable_uniformity(torch.tensor([[0.8, 0.2], [0.3, 0.7]]), pool, base=2)
    tensor([1.0000, 0.8813], dtype=torch.float64)
    """
    points = torch.as_tensor(pool, dtype=torch.float64)
    points = points[nondominated(points)]
    return uniformity(points, torch.as_tensor(rays, dtype=torch.float64)[:, None], base=base).amax(-1)


def controllability(losses: Tensor, rays: Tensor, pool: Tensor) -> Tensor:
    """Compare the uniformity of losses with the best attainable uniformity at each ray, ``[R]``, from 0 to 1.

    A ratio of uniformities ``1 - mu`` would depend on the base of the logarithm, and have the wrong sign where they are
    negative. Minus the least possible uniformity, ``1 - ln m``, uniformities are entropies of ``p_j ~ r_j l_j``, whose
    ratio is the same in every base:

        (ln m - mu_r(l)) / (ln m - min mu_r(l'))        over the non-dominated points l' of the pool

    A dominated point that is more uniform than all non-dominated points counts as 1.

    >>> controllability(torch.tensor([[0.4, 0.6]]), torch.tensor([[0.8, 0.2]]), torch.tensor([[0.2, 0.8]]))
    tensor([0.8454], dtype=torch.float64)
    """
    m = torch.as_tensor(rays).shape[-1]
    entropy, best = uniformity(losses, rays, base=m), attainable_uniformity(rays, pool, base=m)
    return torch.where(best > 0, entropy / best, 1.0).clamp(0, 1)


def cross_angle(losses: Tensor, rays: Tensor) -> Tensor:
    """Measure the angle in degrees between losses and ray, ``[R]``: the error of solvers with ``direction`` rays."""
    losses, rays = (torch.as_tensor(t, dtype=torch.float64) for t in (losses, rays))
    return torch.rad2deg(torch.acos(torch.cosine_similarity(losses, rays, dim=-1).clamp(-1, 1)))


def igd_plus(losses: Tensor, truth: Tensor) -> float:
    """Compute the mean distance from the true front to the region that the points dominate (IGD+, Ishibuchi et al.,
    2015).

    >>> igd_plus(torch.tensor([[0.0, 0.0]]), torch.tensor([[0.0, 1.0], [1.0, 0.0]]))
    0.0
    """
    import moocore

    points, wanted = (torch.as_tensor(t, dtype=torch.float64, device="cpu").detach().numpy() for t in (losses, truth))
    return float(moocore.igd_plus(points, ref=wanted))


def spacing(losses: Tensor) -> float:
    """Compute the standard deviation of the L1 distance to the nearest other point (Schott, 1995), which is 0 for
    evenly spaced points.

    >>> spacing(torch.tensor([[0.0, 2.0], [1.0, 1.0], [2.0, 0.0]]))
    0.0
    """
    points = torch.as_tensor(losses, dtype=torch.float64).detach()
    if len(points) < 2:
        return 0.0
    distance = torch.cdist(points, points, p=1).fill_diagonal_(math.inf).min(dim=1).values
    return float(distance.std(correction=1))


def nondominated(losses: Tensor) -> Tensor:
    """Mask ``[R]`` the points that no other point dominates (no worse in any objective, better in at least one).

    >>> nondominated(torch.tensor([[0.0, 1.0], [1.0, 0.0], [1.0, 1.0]]))
    tensor([ True,  True, False])
    """
    points = torch.as_tensor(losses)
    no_worse = (points[:, None] <= points[None]).all(-1)  # [i, j]: i is no worse than j
    better = (points[:, None] < points[None]).any(-1)
    return ~(no_worse & better).any(0)


def nondominated_share(losses: Tensor) -> float:
    """Return the number of different non-dominated points as a share of all points; copies of a point count once.

    >>> nondominated_share(torch.tensor([[0.0, 1.0], [0.0, 1.0], [1.0, 0.0], [1.0, 1.0]]))
    0.5
    """
    return int(nondominated(losses.unique(dim=0)).sum()) / len(losses)
