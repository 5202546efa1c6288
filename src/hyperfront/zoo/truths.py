"""Known fronts: curves in the plane, and the unit sphere."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from hyperfront.preferences import das_dennis
from hyperfront.problem import Truth


def curve(
    point: Callable[[Tensor], Tensor], pieces: Sequence[tuple[float, float]], hypervolume: float, *, drawn: int = 400
) -> Truth:
    """Make the front ``point(t) [..., 2]`` for ``t`` in one or several intervals."""
    vertices = [point(torch.linspace(a, b, 20_001, dtype=torch.float64)) for a, b in pieces]

    def distance(losses: Tensor) -> Tensor:
        losses = losses.double().cpu()
        return torch.stack([_to_polyline(losses, line) for line in vertices]).amin(0)

    length = sum(b - a for a, b in pieces)
    spread = [torch.linspace(a, b, max(2, round(drawn * (b - a) / length)), dtype=torch.float64) for a, b in pieces]
    return Truth(torch.cat([point(t) for t in spread]), hypervolume, distance)


def _to_polyline(points: Tensor, line: Tensor) -> Tensor:
    """Distance ``[R]`` of points ``[R, 2]`` to the polyline with vertices ``[K, 2]``. Distances to segments
    have an error of second order in their length."""
    nearest = torch.cdist(points, line).argmin(1)
    result = torch.full((len(points),), math.inf, dtype=torch.float64)
    for shift in (-1, 0):  # the segments on either side of the nearest vertex
        start = (nearest + shift).clamp(0, len(line) - 2)
        a, b = line[start], line[start + 1]
        along = (((points - a) * (b - a)).sum(1) / (b - a).square().sum(1)).clamp(0, 1)
        result = torch.minimum(result, (points - a - along[:, None] * (b - a)).norm(dim=1))
    return result


def unit_sphere(m: int, hypervolume: float) -> Truth:
    """The part of the unit sphere with non-negative coordinates."""

    def distance(losses: Tensor) -> Tensor:
        losses = losses.double().cpu()
        positive = losses.clamp_min(0)
        length = positive.norm(dim=1, keepdim=True)
        corner = torch.nn.functional.one_hot(losses.argmax(1), m)  # nearest if no entry is positive
        nearest = torch.where(length > 0, positive / length, corner)
        return (losses - nearest).norm(dim=1)

    partitions = {2: 200, 3: 30, 4: 12}.get(m, 5 if m <= 20 else 1)  # about m to this power points
    rays = das_dennis(m, partitions)
    return Truth(rays / rays.norm(dim=1, keepdim=True), hypervolume, distance)
