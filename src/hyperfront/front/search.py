"""Searching the ray for "minimize a, subject to b <= x" on the learned, continuous front.

Every round fits a smooth surface to the points measured so far, finds its optima, and measures the front there. The
surface is a cubic spline (radial basis functions with a linear part). It bends like the front, so a few rounds find the
edge of the feasible set to many digits, where searches along fixed directions stop early. The best of all measured
points is returned, so a loss or score that is noisy or has steps can mislead the proposals, but not the answer.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import replace

import torch
from torch import Tensor

from hyperfront.errors import UnattainableError
from hyperfront.front.question import Question

Columns = Mapping[str, Tensor]
Measure = Callable[[Tensor], Columns]
Points = tuple[Tensor, Columns]
"""Rays ``[R, m]`` and their losses and scores ``[R]`` by name, the best point first."""
Limits = Mapping[str, tuple[str, float]]


def best(columns: Columns, question: Question) -> int:
    """Index of the best point within the limits, or of the point nearest to the limits if none is within them."""
    excess, cost = _excess(columns, question.limits), question.cost(columns)
    kept = (excess == 0) & cost.isfinite()
    return int(torch.where(kept, cost, math.inf).argmin()) if kept.any() else int(excess.argmin())


def check(columns: Columns, index: int, question: Question) -> None:
    """Raise an error that names the nearest attainable limits, if the point does not keep the limits."""
    limits = question.limits
    if _excess(columns, limits)[index] > 0:
        raise UnattainableError(
            "no ray of the front is within the limits",
            got=", ".join(f"{name} {sign} {limit:g}" for name, (sign, limit) in limits.items()),
            expected="limits that can be attained; the nearest point has "
            + ", ".join(f"{name} = {columns[name][index].item():.6g}" for name in limits),
            fix="relax the limits, or train longer",
        )
    if not question.cost(columns)[index].isfinite():
        raise UnattainableError(
            f"no ray within the limits has a finite value of {question.goal!r}",
            got=f"{question.goal} = {columns[question.goal][index].item()}",
        )


def search(measure: Measure, rays: Tensor, columns: Columns, question: Question, *, rounds: int) -> Points:
    """Find the best ray, starting from the measured points ``rays [R, m]``; ``measure`` evaluates new rays.

    It returns all points, the best first: rays ``[R', m]`` and their columns ``[R']``. The first point was measured
    alone, since a ray that is measured together with others may differ in the last digit.
    """
    generator = torch.Generator().manual_seed(0)
    columns = {name: values.clone() for name, values in columns.items()}
    for turn in range(rounds):
        new = _proposals(rays, columns, question, 0.6**turn, generator)
        more = measure(new)
        rays = torch.cat([rays, new])
        columns = {name: torch.cat([values, more[name]]) for name, values in columns.items()}
    confirmed = torch.zeros(len(rays), dtype=torch.bool)
    while not confirmed[index := best(columns, question)]:
        alone = measure(rays[index][None])
        for name, values in columns.items():
            values[index] = alone[name][0]
        confirmed[index] = True
    check(columns, index, question)
    return first(rays, columns, index)


def first(rays: Tensor, columns: Columns, index: int) -> Points:
    """Return the points with the point of ``index`` first."""
    order = torch.tensor([index, *(other for other in range(len(rays)) if other != index)])
    return rays[order], {name: values[order] for name, values in columns.items()}


def _proposals(rays: Tensor, columns: Columns, question: Question, reach: float, generator: torch.Generator) -> Tensor:
    """Propose optima of the surface near the best ray, at several distances from the limits, and a few random rays."""
    center, m, limits = rays[best(columns, question)], rays.shape[1], question.limits
    count = max(2, m, 5 * m - len(rays))  # more where little is known
    columns = {name: columns[name] for name in dict.fromkeys([question.goal, *limits])}
    near = (_place(rays) - _place(center)).norm(dim=1).argsort()
    near = near[torch.stack([*columns.values()]).isfinite().all(0)[near]][:100]
    if not len(near):
        return _around(center, reach, count + 5, generator)
    surface = _surface(rays[near], {name: values[near] for name, values in columns.items()})
    local = {name: columns[name][near[: 2 * m]] for name in limits}
    chosen = []
    for margin in (-0.1, 0.0, 0.02, 0.1, 0.3):  # the surface may be wrong on either side of the limit
        tight = {}
        for name, (sign, limit) in limits.items():
            allowance = margin * float(local[name].max() - local[name].min())
            tight[name] = (sign, limit - allowance if sign == "<=" else limit + allowance)
        ray = center
        for step in range(18):
            cloud = torch.cat([ray[None], _around(ray, reach * 0.6**step, 256, generator)])
            ray = cloud[best(surface(cloud), replace(question, limits=tight))]
        chosen.append(ray)
    return torch.cat([torch.stack(chosen), _around(center, reach, count, generator)])


def _surface(rays: Tensor, columns: Columns) -> Callable[[Tensor], Columns]:
    """Fit the columns as functions of the ray: ``sum_k c_k |x - x_k|^3`` plus a linear function of ``x``."""
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
    """Draw rays ``[count, m]``, about ``reach`` away from ``ray`` in the coordinates of :func:`_place`."""
    noise = torch.randn(count, len(ray), dtype=ray.dtype, generator=generator)
    cloud = (ray + reach * (ray + 0.1) * noise).clamp_min(1e-4)
    return cloud / cloud.sum(-1, keepdim=True)


def _excess(columns: Columns, limits: Limits) -> Tensor:
    """Relative violation of the limits by each point: 0 within all limits, infinite for NaN."""
    excess = torch.zeros_like(next(iter(columns.values())))
    for name, (sign, limit) in limits.items():
        over = columns[name] - limit if sign == "<=" else limit - columns[name]
        excess = excess + over.clamp_min(0) / max(abs(limit), 1e-12)
    return excess.nan_to_num(nan=math.inf, posinf=math.inf)
