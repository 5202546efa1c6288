"""Rays laid out evenly over the simplex, and interpolation between grid rays."""

from __future__ import annotations

import itertools
import math

import torch
from torch import Tensor

from hyperfront.errors import RayError, check_number
from hyperfront.errors.signatures import checked

LARGEST = 10**6
"""The most rays and objectives of a layout."""
MOST_ENTRIES = 5 * 10**7
"""The most numbers in a grid."""


@checked
def das_dennis(m: int, partitions: int, *, positive: bool = False) -> Tensor:
    """Return the grid of Das and Dennis (1998): all ``k / H`` with integers ``k >= 0`` that sum to ``H = partitions``.

    It has ``C(H + m - 1, m - 1)`` points. ``positive`` keeps only the ``C(H - 1, m - 1)`` points without a zero.

    >>> das_dennis(3, 11, positive=True).shape
    torch.Size([45, 3])
    """
    least = 1 if positive else 0
    _check_sizes(m=m, partitions=partitions)
    if m < 2 or partitions < max(1, least * m):
        raise RayError(
            "no such grid",
            got=f"m = {m}, partitions = {partitions}",
            expected=f"m >= 2, partitions >= {least * m or 1}",
        )
    return _compositions(partitions - least * m, m).add_(least) / partitions


@checked
def shifted_grid(m: int, partitions: int) -> Tensor:
    """Return the rays farthest from ``das_dennis(m, partitions)``, to test on rays that training never saw
    (Appendix B.2).

    The grid of Das and Dennis is the lattice ``A_{m-1}``. Its deep holes are the points whose coordinates all have the
    fractional part ``j/m`` with ``j = floor(m/2)`` [Conway & Sloane, ch. 4.6.1]: ``(k + j/m) / H``, ``sum k = H - j``.

    >>> shifted_grid(2, 2)
    tensor([[0.7500, 0.2500],
            [0.2500, 0.7500]], dtype=torch.float64)
    """
    _check_sizes(m=m, partitions=partitions)
    j = m // 2
    if m < 2 or partitions < j:
        raise RayError("no such grid", got=f"m = {m}, partitions = {partitions}", expected=f"m >= 2, partitions >= {j}")
    return (_compositions(partitions - j, m) + j / m) / partitions


@checked
def rays(n: int, m: int) -> Tensor:
    """Lay out ``n`` rays for evaluation, ``[n, m]``, evenly and strictly inside the simplex.

    For ``m = 2`` they have equal angles from .1 to pi/2 - .1, as in the paper. For more objectives they are points of
    the smallest positive Das-Dennis grid with at least ``n`` points, evenly thinned to ``n``.

    >>> rays(3, m=2)
    tensor([[0.9088, 0.0912],
            [0.5000, 0.5000],
            [0.0912, 0.9088]], dtype=torch.float64)
    """
    check_number("the number of rays", n, 1, LARGEST, whole=True, error=RayError)
    check_number("the number of objectives", m, 2, LARGEST, whole=True, error=RayError)
    if n == 1:
        return torch.full((1, m), 1 / m, dtype=torch.float64)
    if m == 2:
        angle = torch.linspace(0.1, math.pi / 2 - 0.1, n, dtype=torch.float64)
        points = torch.stack([angle.cos(), angle.sin()], dim=-1)
        return points / points.sum(-1, keepdim=True)
    partitions = next(h for h in itertools.count(m) if math.comb(h - 1, m - 1) >= n)
    grid = das_dennis(m, partitions, positive=True)
    return grid[torch.linspace(0, len(grid) - 1, n, dtype=torch.float64).round().long()]


def _check_sizes(**sizes: object) -> None:
    for name, size in sizes.items():
        check_number(f"{name} of the grid", size, 0, LARGEST, whole=True, error=RayError)


@checked
def nearest(rays: Tensor, table: Tensor) -> Tensor:
    """Return the index ``[R]`` of the ray of ``table [K, m]`` that is nearest to each of ``rays [R, m]``.

    >>> nearest(torch.tensor([[0.8, 0.2]]), torch.tensor([[0.0, 1.0], [1.0, 0.0]]))
    tensor([1])
    """
    if (
        rays.ndim != 2
        or table.ndim != 2
        or rays.shape[1] != table.shape[1]
        or not len(table)
        or torch.bool in (rays.dtype, table.dtype)
    ):
        raise RayError(
            "rays and table do not fit together",
            got=f"rays {list(rays.shape)}, table {list(table.shape)}",
            expected="[R, m] and [K, m] with K >= 1",
        )
    return (rays[:, None] - table).square().sum(-1).argmin(-1)


@checked
def interpolation(rays: Tensor, partitions: int) -> Tensor:
    """Return weights ``[R, K]`` that interpolate linearly between the ``K`` points of ``das_dennis(m, partitions)``.

    They are barycentric coordinates in the Freudenthal triangulation of ``x_i = H (r_1 + ... + r_i)``, in which grid
    points are integers. The weight of the corner ``g``, with ``d = x - g``, is

        max(0, 1 - max(0, d_1, ..., d_{m-1}) + min(0, d_1, ..., d_{m-1}))

    >>> interpolation(torch.tensor([[0.75, 0.25]]), 2)
    tensor([[0.5000, 0.5000, 0.0000]])
    """
    _check_sizes(partitions=partitions)
    if rays.ndim != 2 or rays.shape[1] < 2 or not rays.is_floating_point() or not partitions:
        raise RayError(
            "rays cannot be interpolated",
            got=f"{list(rays.shape)} of {rays.dtype}, {partitions} partitions",
            expected="floating-point rays [R, m] with m >= 2, and partitions >= 1",
        )
    m = rays.shape[-1]
    _check_memory(partitions, m)
    sums = torch.stack([rays[:, :i].sum(-1) for i in range(1, m)], dim=-1)  # no cumsum: not deterministic on a GPU
    x = (partitions * sums).clamp(0, partitions)
    x = torch.where((x - x.round()).abs() < 1e-5, x.round(), x)  # a grid ray, up to rounding
    bars = [*itertools.combinations(range(partitions + m - 1), m - 1)][::-1]  # in the order of the grid
    grid = torch.tensor([[bar - i for i, bar in enumerate(row)] for row in bars]).to(x)  # [K, m - 1]
    d = x[:, None] - grid
    return (1 - d.amax(-1).clamp_min(0) + d.amin(-1).clamp_max(0)).clamp_min(0)


def _compositions(total: int, parts: int) -> Tensor:
    """List all tuples of ``parts`` non-negative integers that sum to ``total``, in descending order, one in a row."""
    _check_memory(total, parts)
    bars = torch.tensor(list(itertools.combinations(range(total + parts - 1), parts - 1)), dtype=torch.float64)
    edges = torch.cat(
        [torch.full((len(bars), 1), -1.0), bars, torch.full((len(bars), 1), float(total + parts - 1))], dim=1
    )
    return (edges.diff(dim=1) - 1).flip(0)


def _check_memory(total: int, parts: int) -> None:
    """Raise an error if there are too many tuples of ``parts`` non-negative integers that sum to ``total``."""
    logarithm = math.lgamma(total + parts) - math.lgamma(parts) - math.lgamma(total + 1)  # of their number
    if logarithm + math.log(parts) > math.log(MOST_ENTRIES):
        raise RayError(
            "the grid has too many points",
            got=f"about 10^{logarithm / math.log(10):.1f} points of {parts} objectives",
            expected=f"at most {MOST_ENTRIES:,} entries",
            fix="ask for fewer rays, or draw them with hyperfront.Dirichlet(1.0)",
        )
