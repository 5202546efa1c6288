"""Rays: where on the front one wants to be, and how to draw, lay out, check and convert them.

A *ray* ``r`` is a point of the simplex: ``m`` non-negative numbers that sum to 1. ``R`` rays are a tensor ``[R, m]``.
What a ray means depends on the solver that trained the model, and there are three conventions:

============= ============================================= =====================================
convention    the ray fixes                                 solvers
============= ============================================= =====================================
``weights``   the minimiser of ``sum_j r_j l_j``            linear scalarisation
``inverse``   the point with ``r_1 l_1 = ... = r_m l_m``    EPO, (smooth) Tchebycheff, uniformity
``direction`` the point with losses parallel to ``r``       PBI, COSMOS, PMTL, HVMax
============= ============================================= =====================================

In all but the last, a larger ``r_j`` asks for a smaller loss ``j``.
"""

from __future__ import annotations

import itertools
import math
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

import torch
from torch import Tensor

from hyperfront.errors import HyperfrontError, RayError

Convention = Literal["weights", "inverse", "direction"]


class Preferences(Protocol):
    """How training rays are drawn."""

    def sample(self, count: int, m: int, generator: torch.Generator) -> Tensor:
        """``count`` rays, ``[count, m]`` float64 on the CPU."""
        ...


@dataclass(frozen=True)
class Dirichlet:
    """Rays from a Dirichlet distribution; ``alpha`` = 0.2 is the paper's choice for all its experiments.

    Drawn in logarithms, ``Gamma(a) = Gamma(a + 1) U^(1/a)``, so that no ray is 0/0 however small ``alpha`` is.

    >>> g = torch.Generator().manual_seed(0)
    >>> Dirichlet(0.2).sample(3, 2, g).sum(-1)
    tensor([1., 1., 1.], dtype=torch.float64)
    """

    alpha: float | tuple[float, ...] = 0.2

    def __post_init__(self) -> None:
        if isinstance(self.alpha, list):  # as it comes back from JSON
            object.__setattr__(self, "alpha", tuple(self.alpha))
        entries = self.alpha if isinstance(self.alpha, tuple) else (self.alpha,)
        if not entries or not all(0 < a < math.inf for a in entries):
            raise RayError("Dirichlet needs positive concentrations", got=self.alpha, expected="alpha > 0, e.g. 0.2")

    def sample(self, count: int, m: int, generator: torch.Generator) -> Tensor:
        if isinstance(self.alpha, tuple) and len(self.alpha) != m:
            raise RayError(
                "Dirichlet has the wrong number of concentrations",
                got=f"{len(self.alpha)} concentrations for {m} objectives",
                expected=f"one number or {m}",
            )
        alpha = torch.as_tensor(self.alpha, dtype=torch.float64).expand(count, m)
        log_gamma = torch._standard_gamma(alpha + 1, generator).log()
        log_uniform = torch.rand(count, m, dtype=torch.float64, generator=generator).log()
        return torch.softmax(log_gamma + log_uniform / alpha, dim=-1)


def uniform() -> Dirichlet:
    """Rays spread evenly over the simplex."""
    return Dirichlet(1.0)


@dataclass(frozen=True)
class FixedRays:
    """Rays drawn with replacement from a fixed set, such as a grid (Appendix B.2 trains on a Das-Dennis grid).

    >>> FixedRays.of(das_dennis(2, 2)).sample(1, 2, torch.Generator().manual_seed(0)).shape
    torch.Size([1, 2])
    """

    rays: tuple[tuple[float, ...], ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "rays", tuple(map(tuple, self.rays)))

    @classmethod
    def of(cls, rays: Tensor) -> FixedRays:
        return cls(tuple(map(tuple, validate(rays, rays.shape[-1]).tolist())))

    def sample(self, count: int, m: int, generator: torch.Generator) -> Tensor:
        rays = validate(torch.tensor(self.rays, dtype=torch.float64), m)
        return rays[torch.randint(len(rays), (count,), generator=generator)]


@dataclass(frozen=True)
class InTurn:
    """The rays of a fixed set one after the other, again and again: with as many rays per step, all of them in every
    step. Nothing is drawn, so that the order of the data does not depend on how many rays there are.

    >>> InTurn.of(das_dennis(2, 1)).sample(3, 2, torch.Generator())
    tensor([[1., 0.],
            [0., 1.],
            [1., 0.]], dtype=torch.float64)
    """

    rays: tuple[tuple[float, ...], ...]

    @classmethod
    def of(cls, rays: Tensor) -> InTurn:
        return cls(tuple(map(tuple, validate(rays, rays.shape[-1]).tolist())))

    def sample(self, count: int, m: int, generator: torch.Generator) -> Tensor:
        rays = validate(torch.tensor(self.rays, dtype=torch.float64), m)
        return rays.repeat(-(-count // len(rays)), 1)[:count]


def das_dennis(m: int, partitions: int, *, positive: bool = False) -> Tensor:
    """The grid of Das and Dennis (1998): all ``k / H`` with integers ``k >= 0`` that sum to ``H = partitions``.

    It has ``C(H + m - 1, m - 1)`` points; ``positive`` keeps the ``C(H - 1, m - 1)`` without a zero.

    >>> das_dennis(3, 11, positive=True).shape
    torch.Size([45, 3])
    """
    least = 1 if positive else 0
    if m < 2 or partitions < max(1, least * m):
        raise RayError(
            "no such grid",
            got=f"m = {m}, partitions = {partitions}",
            expected=f"m >= 2, partitions >= {least * m or 1}",
        )
    return _compositions(partitions - least * m, m).add_(least) / partitions


def shifted_grid(m: int, partitions: int) -> Tensor:
    """The rays farthest from ``das_dennis(m, partitions)``, for testing on rays never seen (Appendix B.2).

    That grid is the lattice ``A_{m-1}``; its deep holes are the points whose coordinates all have the fractional
    part ``j/m`` with ``j = floor(m/2)`` [Conway & Sloane, ch. 4.6.1], i.e. ``(k + j/m) / H`` with ``sum k = H - j``.

    >>> shifted_grid(2, 2)
    tensor([[0.7500, 0.2500],
            [0.2500, 0.7500]], dtype=torch.float64)
    """
    j = m // 2
    if m < 2 or partitions < j:
        raise RayError("no such grid", got=f"m = {m}, partitions = {partitions}", expected=f"m >= 2, partitions >= {j}")
    return (_compositions(partitions - j, m) + j / m) / partitions


def rays(n: int, m: int) -> Tensor:
    """``n`` rays for evaluation, ``[n, m]``, evenly laid out and strictly inside the simplex.

    For ``m = 2`` equal angles from .1 to pi/2 - .1, as in the paper; beyond, points of the smallest positive
    Das-Dennis grid with at least ``n`` points, evenly thinned to ``n``.

    >>> rays(3, m=2)
    tensor([[0.9088, 0.0912],
            [0.5000, 0.5000],
            [0.0912, 0.9088]], dtype=torch.float64)
    """
    if n < 1 or m < 2:
        raise RayError("no rays to lay out", got=f"n = {n}, m = {m}", expected="n >= 1 and m >= 2")
    if n == 1:
        return torch.full((1, m), 1 / m, dtype=torch.float64)
    if m == 2:
        angle = torch.linspace(0.1, math.pi / 2 - 0.1, n, dtype=torch.float64)
        points = torch.stack([angle.cos(), angle.sin()], dim=-1)
        return points / points.sum(-1, keepdim=True)
    partitions = next(h for h in itertools.count(m) if math.comb(h - 1, m - 1) >= n)
    grid = das_dennis(m, partitions, positive=True)
    return grid[torch.linspace(0, len(grid) - 1, n, dtype=torch.float64).round().long()]


def validate(rays: Tensor | Sequence, m: int, names: Sequence[str] | None = None) -> Tensor:
    """The rays as a float tensor ``[R, m]`` on the simplex, or an error that names the offending objective.

    One ray ``[m]`` becomes ``[1, m]``. Rays that do not sum to 1 are normalised with a notice.
    """
    try:
        table = torch.as_tensor(rays)
    except (TypeError, ValueError, RuntimeError) as error:
        raise RayError("rays are not numbers", got=repr(rays)[:80], expected=f"a tensor [R, {m}]") from error
    table = table if table.dtype in (torch.float32, torch.float64) else table.to(torch.float64)
    table = table.unsqueeze(0) if table.ndim == 1 else table
    if table.ndim != 2 or table.shape[1] != m or not len(table):
        raise RayError(
            "rays have the wrong shape",
            got=list(table.shape),
            expected=f"[R, {m}], one entry for each of {', '.join(names) if names else f'{m} objectives'}",
            fix=f"hyperfront.rays(25, m={m}) lays out 25 of them",
        )
    for fault, mask in {"NaN or infinite": ~table.isfinite(), "negative": table < 0}.items():
        if mask.any():
            row, column = (int(i) for i in mask.nonzero()[0])
            name = names[column] if names else f"objective {column}"
            raise RayError(
                f"ray {row} has a {fault} entry",
                got=f"{name} = {table[row, column].item():g}",
                expected="non-negative numbers that sum to 1",
            )
    total = table.sum(-1, keepdim=True)
    if (total == 0).any():
        raise RayError(
            f"ray {int((total == 0).nonzero()[0, 0])} is all zero",
            expected="at least one positive entry",
            fix="an indifferent ray is [1/m, ..., 1/m]",
        )
    if ((total - 1).abs() > 1e-5).any():
        warnings.warn("rays do not sum to 1: they were normalised", stacklevel=2)
        table = table / table.amax(-1, keepdim=True)  # first, so that huge entries do not overflow
        table = table / table.sum(-1, keepdim=True)
    return table


def layout(which: int | Tensor | Sequence, m: int, names: Sequence[str]) -> Tensor:
    """Rays to evaluate at, ``[R, m]`` float64 on the CPU: those given, or that many laid out by :func:`rays`."""
    return validate(rays(which, m) if isinstance(which, int) else which, m, names).double().cpu()


def convert(rays: Tensor, source: Convention, to: Convention) -> Tensor:
    """Rays of one convention in another: ``inverse`` and ``direction`` are each other's reciprocals.

    The loss weights of linear scalarisation are the front's normal, which no formula knows beforehand: train the model
    you need, or take the ray through a point that you want with :func:`through`.

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


def through(losses: Tensor, convention: Convention = "inverse") -> Tensor:
    """The ray through the point ``losses [..., m]``: ``r_j ~ 1 / l_j`` (inverse) or ``r_j ~ l_j`` (direction).

    >>> through(torch.tensor([1.0, 3.0]))
    tensor([0.7500, 0.2500])
    """
    if convention == "weights":
        raise HyperfrontError(
            "the loss weights that lead to a point are not given by the point", expected="inverse or direction"
        )
    if convention == "direction":
        return torch.softmax(losses.log(), dim=-1)  # in logarithms, so that nothing overflows
    return torch.softmax(-losses.clamp_min(torch.finfo(losses.dtype).tiny).log(), dim=-1)


def nearest(rays: Tensor, table: Tensor) -> Tensor:
    """Which ray of ``table [K, m]`` is nearest to each of ``rays [R, m]``: indices ``[R]``.

    >>> nearest(torch.tensor([[0.8, 0.2]]), torch.tensor([[0.0, 1.0], [1.0, 0.0]]))
    tensor([1])
    """
    return (rays[:, None] - table).square().sum(-1).argmin(-1)


def _compositions(total: int, parts: int) -> Tensor:
    """All ``parts`` non-negative integers that sum to ``total``, one row each, first coordinate descending."""
    bars = torch.tensor(list(itertools.combinations(range(total + parts - 1), parts - 1)), dtype=torch.float64)
    edges = torch.cat(
        [torch.full((len(bars), 1), -1.0), bars, torch.full((len(bars), 1), float(total + parts - 1))], dim=1
    )
    return (edges.diff(dim=1) - 1).flip(0)


def interpolation(rays: Tensor, partitions: int) -> Tensor:
    """Weights ``[R, K]`` that interpolate linearly between the ``K`` points of ``das_dennis(m, partitions)``.

    Barycentric coordinates in the Freudenthal triangulation, in ``x_i = H (r_1 + ... + r_i)``, which makes integers of
    the grid. There the weight of the corner ``g``, with ``d = x - g``, is

        max(0, 1 - max(0, d_1, ..., d_{m-1}) + min(0, d_1, ..., d_{m-1}))

    >>> interpolation(torch.tensor([[0.75, 0.25]]), 2)
    tensor([[0.5000, 0.5000, 0.0000]])
    """
    m = rays.shape[-1]
    sums = torch.stack([rays[:, :i].sum(-1) for i in range(1, m)], dim=-1)  # no cumsum: not deterministic on a GPU
    x = (partitions * sums).clamp(0, partitions)
    x = torch.where((x - x.round()).abs() < 1e-5, x.round(), x)  # a grid ray, up to rounding
    bars = [*itertools.combinations(range(partitions + m - 1), m - 1)][::-1]  # in the order of the grid
    grid = torch.tensor([[bar - i for i, bar in enumerate(row)] for row in bars]).to(x)  # [K, m - 1]
    d = x[:, None] - grid
    return (1 - d.amax(-1).clamp_min(0) + d.amin(-1).clamp_max(0)).clamp_min(0)
