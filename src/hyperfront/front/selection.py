"""Finding the ray for "minimize a, subject to b <= x" on the learned, continuous front.

Every round puts a smooth surface through the points measured so far, asks it where to look, and measures there. The
surface is a cubic spline (radial basis functions with a linear part): it bends as the front does, so that the edge of
the feasible set is followed and met to many digits after a few rounds, where searches along fixed directions get stuck.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

import torch
from torch import Tensor

from hyperfront.errors import SelectionError

Columns = Mapping[str, Tensor]
Limits = Mapping[str, tuple[str, float]]


def best(columns: Columns, minimize: str, limits: Limits) -> int:
    """Index of the best point within the limits; where there is none, of the one nearest to them."""
    excess = _excess(columns, limits)
    kept = (excess == 0) & ~columns[minimize].isnan()
    return int(torch.where(kept, columns[minimize], math.inf).argmin()) if kept.any() else int(excess.argmin())


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
    measure: Callable[[Tensor], Columns], rays: Tensor, columns: Columns, minimize: str, limits: Limits, *, rounds: int
) -> Tensor:
    """The best ray ``[m]`` found from the measured points ``rays [R, m]`` on; ``measure`` evaluates new ones."""
    generator = torch.Generator().manual_seed(0)
    columns = {name: values.clone() for name, values in columns.items()}
    for turn in range(rounds):
        new = _proposals(rays, columns, minimize, limits, 0.6**turn, generator)
        more = measure(new)
        rays = torch.cat([rays, new])
        columns = {name: torch.cat([values, more[name]]) for name, values in columns.items()}
    for _ in rays:  # alone, a ray may come out different in the last digit than in a batch, and so may the next best
        index = best(columns, minimize, limits)
        if _excess(columns, limits)[index] > 0:
            break
        alone = measure(rays[index][None])
        for name, values in columns.items():
            values[index] = alone[name][0]
        if _excess(columns, limits)[index] == 0:
            return rays[index]
    check(columns, index, limits)
    return rays[index]


def _proposals(
    rays: Tensor, columns: Columns, minimize: str, limits: Limits, reach: float, generator: torch.Generator
) -> Tensor:
    """Optima of the surface near the best ray, at several distances from the limits, and a few rays at random."""
    centre, m = rays[best(columns, minimize, limits)], rays.shape[1]
    columns = {name: columns[name] for name in dict.fromkeys([minimize, *limits])}
    near = (_place(rays) - _place(centre)).norm(dim=1).argsort()
    near = near[torch.stack([*columns.values()]).isfinite().all(0)[near]][:100]
    surface = _surface(rays[near], {name: values[near] for name, values in columns.items()})
    local = {name: columns[name][near[: 2 * m]] for name in limits}
    chosen = []
    for margin in (-0.1, 0.0, 0.02, 0.1, 0.3):  # the surface may be wrong on either side of the limit
        tight = {}
        for name, (sign, limit) in limits.items():
            allowance = margin * float(local[name].max() - local[name].min())
            tight[name] = (sign, limit - allowance if sign == "<=" else limit + allowance)
        ray = centre
        for step in range(18):
            cloud = torch.cat([ray[None], _around(ray, reach * 0.6**step, 256, generator)])
            ray = cloud[best(surface(cloud), minimize, tight)]
        chosen.append(ray)
    count = max(2, m, 5 * m - len(rays))  # more where little is known
    return torch.cat([torch.stack(chosen), _around(centre, reach, count, generator)])


def _surface(rays: Tensor, columns: Columns) -> Callable[[Tensor], Columns]:
    """Columns as functions of the ray: ``sum_k c_k |x - x_k|^3`` plus a linear function of ``x``."""
    knots, m = _place(rays), rays.shape[1]

    def design(x: Tensor) -> Tensor:
        distance = torch.cdist(x, knots, compute_mode="donot_use_mm_for_euclid_dist")
        return torch.cat([distance**3, torch.ones_like(x[:, :1]), x[:, :-1]], dim=1)

    upper = design(knots)
    lower = torch.cat([upper[:, -m:].T, torch.zeros(m, m, dtype=rays.dtype)], dim=1)
    values = torch.stack([*columns.values()], dim=1)
    values = torch.cat([values, torch.zeros(m, values.shape[1], dtype=rays.dtype)])
    # least squares: rays may coincide, or be too few for the linear part
    weights = torch.linalg.lstsq(torch.cat([upper, lower]), values, rcond=1e-14, driver="gelsd").solution
    return lambda rays: dict(zip(columns, (design(_place(rays)) @ weights).T))


def _place(rays: Tensor) -> Tensor:
    """Coordinates ``[R, m]`` in which fronts are smooth: logarithmic inside the simplex, linear towards its faces."""
    logs = (rays + 0.1).log()
    return logs - logs.mean(-1, keepdim=True)


def _around(ray: Tensor, reach: float, count: int, generator: torch.Generator) -> Tensor:
    """Rays ``[count, m]`` at random, about ``reach`` away from ``ray`` in those coordinates."""
    noise = torch.randn(count, len(ray), dtype=ray.dtype, generator=generator)
    cloud = (ray + reach * (ray + 0.1) * noise).clamp_min(1e-4)
    return cloud / cloud.sum(-1, keepdim=True)


def _excess(columns: Columns, limits: Limits) -> Tensor:
    """How far each point is beyond the limits, relative to them: 0 where it keeps all, infinite where it is NaN."""
    excess = torch.zeros_like(next(iter(columns.values())))
    for name, (sign, limit) in limits.items():
        over = columns[name] - limit if sign == "<=" else limit - columns[name]
        excess = excess + over.clamp_min(0) / max(abs(limit), 1e-12)
    return excess.nan_to_num(nan=math.inf, posinf=math.inf)
