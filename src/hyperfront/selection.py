"""Finding the ray for "minimise a, subject to b <= x" on the learned, continuous front.

Every round fits a linear model of the wanted columns around the best ray so far, asks it where to look, and measures
there. With two objectives this is the secant method on the limit; with more it follows the edge of the feasible set,
where searches along fixed directions get stuck.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

import torch
from torch import Tensor

from hyperfront.errors import SelectionError

Columns = Mapping[str, Tensor]
Limits = Mapping[str, tuple[str, float]]


def best(columns: Columns, minimise: str, limits: Limits) -> int:
    """Index of the best point within the limits; where there is none, of the one nearest to them."""
    excess = _excess(columns, limits)
    kept = excess == 0
    return int(torch.where(kept, columns[minimise], math.inf).argmin()) if kept.any() else int(excess.argmin())


def check(columns: Columns, index: int, limits: Limits) -> None:
    """An error that names the nearest attainable limits, if the point does not keep them."""
    if _excess(columns, limits)[index] > 0:
        raise SelectionError(
            "no ray of the front keeps the limits",
            got=", ".join(f"{name} {sign} {limit:g}" for name, (sign, limit) in limits.items()),
            expected="limits that can be attained; the nearest point has "
            + ", ".join(f"{name} = {columns[name][index].item():.6g}" for name in limits),
            fix="relax the limits, or train longer",
        )


def search(
    measure: Callable[[Tensor], Columns], rays: Tensor, columns: Columns, minimise: str, limits: Limits, *, rounds: int
) -> Tensor:
    """The best ray ``[m]`` found from the measured points ``rays [R, m]`` on; ``measure`` evaluates new ones."""
    generator = torch.Generator().manual_seed(0)
    reach = _spacing(rays)
    for _ in range(rounds):
        index = best(columns, minimise, limits)
        new = _proposals(rays, columns, index, minimise, limits, reach, generator)
        more = measure(new)
        rays = torch.cat([rays, new])
        columns = {name: torch.cat([values, more[name]]) for name, values in columns.items()}
        found = best(columns, minimise, limits)
        reach = 2 * float((rays[found] - rays[index]).norm()) if found != index else reach / 4
    index = best(columns, minimise, limits)
    check(columns, index, limits)
    return rays[index]


def _proposals(
    rays: Tensor,
    columns: Columns,
    index: int,
    minimise: str,
    limits: Limits,
    reach: float,
    generator: torch.Generator,
) -> Tensor:
    """Rays within ``reach`` of the best one that a local linear model likes, at several distances from the limits."""
    centre, m = rays[index], rays.shape[1]
    near = (rays - centre).norm(dim=1).argsort()[: 2 * m]
    offsets = (rays[near] - centre)[:, :-1]  # the last coordinate follows from the others
    design = torch.cat([torch.ones(len(near), 1, dtype=rays.dtype), offsets], dim=1)

    scatter = torch.randn(1024, m, dtype=rays.dtype, generator=generator)
    scatter = torch.nn.functional.normalize(scatter - scatter.mean(1, keepdim=True), dim=1)
    length = torch.rand(1024, 1, dtype=rays.dtype, generator=generator)
    cloud = (centre + reach * length * scatter).clamp_min(1e-4)
    cloud = cloud / cloud.sum(1, keepdim=True)
    cloud_design = torch.cat([torch.ones(1024, 1, dtype=rays.dtype), (cloud - centre)[:, :-1]], dim=1)

    def predicted(name: str) -> Tensor:
        # the pseudo-inverse: with few or aligned points the model is the flattest that fits
        return cloud_design @ (torch.linalg.pinv(design) @ columns[name][near])

    goal = predicted(minimise)
    chosen = []
    for margin in (-0.1, 0.0, 0.02, 0.1, 0.3):  # the model may be wrong on either side of the limit
        kept = torch.ones(len(cloud), dtype=torch.bool)
        for name, (sign, limit) in limits.items():
            column = predicted(name)
            allowance = margin * float(column.max() - column.min())
            kept &= column <= limit - allowance if sign == "<=" else column >= limit + allowance
        chosen.append(cloud[torch.where(kept, goal, math.inf).argmin()])
    return torch.stack([*chosen, *cloud[: max(2, m)]])  # a few at random keep the next model well posed


def _excess(columns: Columns, limits: Limits) -> Tensor:
    """How far each point is beyond the limits, relative to them: 0 where it keeps all."""
    excess = torch.zeros_like(next(iter(columns.values())))
    for name, (sign, limit) in limits.items():
        over = columns[name] - limit if sign == "<=" else limit - columns[name]
        excess = excess + over.clamp_min(0) / max(abs(limit), 1e-12)
    return excess


def _spacing(rays: Tensor) -> float:
    """The largest distance from a ray to its nearest neighbour."""
    if len(rays) == 1:
        return 0.5
    return float(torch.cdist(rays, rays).fill_diagonal_(math.inf).min(1).values.max())
