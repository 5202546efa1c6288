"""The shortest vector in the convex hull of points of the plane: try all supports at once, without a read from the
device."""

from __future__ import annotations

import functools
import itertools

import torch
from torch import Tensor


def shortest_in_plane(points: Tensor) -> Tensor:
    """Find ``argmin |sum_k alpha_k p_k|`` over the simplex, for ``points [R, K, 2]`` -> ``alpha [R, K]``.

    If 0 is in the hull, it is in one of the triangles, and the areas that it cuts off are its coordinates. Otherwise
    the shortest vector is on an edge, at the foot of the perpendicular or at an end. With two objectives, all gradients
    that PMTL combines are in one plane, so that this equals :func:`hyperfront.solvers.linalg.minnorm.min_norm`, but
    without a loop.

    >>> shortest_in_plane(torch.tensor([[[1.0, 1.0], [1.0, -1.0], [3.0, 0.0]]]))
    tensor([[0.5000, 0.5000, 0.0000]])
    """
    count = points.shape[1]
    size = points.abs().amax((1, 2), keepdim=True)
    points = points / torch.where(size > 0, size, 1)  # so that no product is too small for a number
    i, j = _subsets(count, 2, points.device)
    p, q = points[:, i], points[:, j]
    length = (p - q).square().sum(-1)
    share = torch.where(length > 0, -((p - q) * q).sum(-1) / length, 0.5).clamp(0, 1)[..., None]
    foot = (share * p + (1 - share) * q).square().sum(-1)
    on_edge = _put(torch.cat([share, 1 - share], -1), torch.stack([i, j], -1), foot.argmin(1), count)
    if count < 3:
        return on_edge
    corners = _subsets(count, 3, points.device)
    a, b, c = (points[:, corner] for corner in corners)
    areas = torch.stack([_cross(b, c), _cross(c, a), _cross(a, b)], -1)  # signed; their sum is the triangle's
    whole = areas.sum(-1)
    inside = (areas * whole[..., None].sign() >= 0).all(-1) & (whole != 0)
    coordinates = torch.where(inside[..., None], areas, 1) / torch.where(inside, whole, 3)[..., None]
    in_triangle = _put(coordinates, torch.stack(corners, -1), (inside * whole.abs()).argmax(1), count)
    # three points on a line make a triangle by rounding only, which misses 0
    found = (in_triangle[:, None] @ points).square().sum(-1) < (on_edge[:, None] @ points).square().sum(-1)
    return torch.where(found, in_triangle, on_edge)


def _cross(p: Tensor, q: Tensor) -> Tensor:
    return p[..., 0] * q[..., 1] - p[..., 1] * q[..., 0]


def _put(values: Tensor, places: Tensor, best: Tensor, count: int) -> Tensor:
    """Put the values ``[R, S, k]`` of the best support into their places ``[S, k]`` among ``count``."""
    row = values.gather(1, best[:, None, None].expand(-1, 1, values.shape[-1]))[:, 0]
    return row.new_zeros(len(row), count).scatter(1, places[best], row)


@functools.lru_cache(maxsize=32)
def _subsets(count: int, size: int, device: torch.device) -> tuple[Tensor, ...]:
    """List all sets of ``size`` out of ``count``, as ``size`` index tensors, once, since a captured step cannot
    copy."""
    table = torch.tensor(list(itertools.combinations(range(count), size)), dtype=torch.long, device=device)
    return table.unbind(1)
