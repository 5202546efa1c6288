"""Figures 1, 7 and 8: problems with known fronts, one panel for each method."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import Any

import numpy as np
import torch

from hyperfront import indicators
from hyperfront.comparison.result import Result
from hyperfront.front import plots
from hyperfront.front.plots import INK, MUTED
from hyperfront.problem import Problem
from reproduction.drawing import NAME_OF, panels, ray_colours, scatter
from reproduction.item_result import Claim, ItemResult, Table, fronts_of, quality, shown
from reproduction.store import Store

Panel = tuple[str, str]
"""Study and method."""
COLUMNS = (
    "problem", "method", "seeds", "rays", "HV", "uniformity", "least uniformity", "largest distance", "seconds",
)  # fmt: skip
NEAR, UNIFORM = 5e-3, 0.999
"""A point is on the front if it is nearer, and on its ray if its uniformity is larger."""


def known_fronts(store: Store, rows: Sequence[Sequence[Panel]]) -> ItemResult:
    """Points and true front of each panel, at the first seed; the table has all seeds."""
    item, lines = ItemResult(notes=["The figure has the points of the first seed."]), []
    found = {panel: store.results(panel[0], [panel[1]]) for row in rows for panel in row}
    for (study, method), results in found.items():
        problem = store.problem(store.study(study))
        uniform, distances = _exactness(problem, results)
        counts = str(len(results)), str(len(results[0].rays))
        far = f"{uniform.min().item():.4f}", f"{distances.max().item():.1e}"
        seconds = shown(fmean(result.seconds["training"] for result in results), 1)
        lines.append((problem_name(problem), NAME_OF[method], *counts, *quality(fronts_of(results), 4), *far, seconds))
        item.claims.append(claim(problem, method, results))
        item.numbers[f"{study}: {method}"] = [
            {"seed": result.seed, "rays": result.rays, "losses": result.fronts["test"]["losses"]} for result in results
        ]
    title = "Known fronts: how near the points of all seeds come to the front and to their rays"
    item.tables.append(Table(title, COLUMNS, lines))
    item.figure = _figure(store, rows, found)
    return item


def _exactness(problem: Problem, results: Sequence[Result]) -> tuple[torch.Tensor, torch.Tensor]:
    """Uniformity of every point, and its distance from the true front."""
    assert problem.truth is not None
    uniform = [indicators.uniformity(result.losses(), result.inverse_rays()) for result in results]
    return torch.cat(uniform), torch.cat([problem.truth.distance(result.losses()) for result in results])


def claim(problem: Problem, method: str, results: Sequence[Result]) -> Claim:
    """Judge the paper's statement about a method on these problems."""
    name, where = NAME_OF[method], problem_name(problem)
    uniform, distances = _exactness(problem, results)
    least, largest, count = uniform.min().item(), distances.max().item(), len(uniform)
    numbers = f"least uniformity {least:.4f}, largest distance {largest:.1e}"
    below, near = distances >= NEAR, largest < NEAR
    if method == "phn-epo" or (method == "epo" and not where.startswith("zdt2")):
        off = int((below | (uniform <= UNIFORM)).sum())
        some = f"{count - off} of {count} points of all seeds are; " if off else ""
        return Claim(f"{where}: {name} is on the front and on every ray", off == 0, some + numbers)
    if method == "epo":
        text, numbers = "EPO fails to reach the front on some rays", f"{int(below.sum())} of {count} points; {numbers}"
        return Claim(f"{where}: {text}", bool(below.any()), numbers)
    if method == "ls":
        worst = torch.cat([result.losses().amin(1) for result in results]).max().item()
        return Claim(f"{where}: LS ends at the extremes", worst < 0.02, f"smaller loss of a point at most {worst:.3f}")
    if method == "pmtl":
        holds = 0.5 < uniform.mean().item() < UNIFORM and near
        return Claim(f"{where}: PMTL is on the front, near its rays but off them", holds, numbers)
    if method == "mgda":
        return Claim(f"{where}: MGDA is on the front, and does not follow rays", least < 0.9 and near, numbers)
    return Claim(f"{where}: {name} does not reach the front to .005 with all its points", largest > NEAR, numbers)


def problem_name(problem: Problem) -> str:
    """The name, with the box if it is not the default."""
    identity = problem.identity or {}
    return ", ".join([identity.get("problem", "problem"), *filter(None, [identity.get("arguments", {}).get("box")])])


def _figure(store: Store, rows: Sequence[Sequence[Panel]], found: Mapping[Panel, list[Result]]) -> Any:
    with panels(len(rows), max(map(len, rows)), width=2.4, height=2.5) as (figure, axes):
        for place, row in zip(axes, rows):
            for each, (study, method) in zip(place, row):
                problem = store.problem(store.study(study))
                where = "" if len(rows) == 1 else f"{problem_name(problem)}: "
                each.set_title(where + NAME_OF[method], fontsize=10)
                _panel(each, problem, method, found[study, method][0])
    return figure


def _panel(axes: Any, problem: Problem, method: str, result: Result) -> None:
    truth, losses = problem.truth, np.array(result.fronts["test"]["losses"])
    assert truth is not None
    points, rays = truth.points.numpy(), result.inverse_rays().numpy()
    high = np.clip(losses.max(0), points.max(0), 1.5 * points.max(0)) * 1.06
    for curve in plots.curves(points):
        axes.plot(*curve.T, color=INK, linewidth=1.2)
    every = max(1, (len(rays) - 1) // 4)  # a hypernetwork has more rays than the others
    marked = np.arange(len(rays)) % every == 0
    lines = plots.half_lines(rays[marked], "inverse", upper=high)
    for line, colour in zip(lines, ray_colours(rays[marked])):
        axes.plot(*line.T, color=colour, linewidth=0.8, linestyle="--")
    if method.startswith("phn-"):
        axes.plot(*losses.T, color=MUTED, linewidth=4, alpha=0.4)
    scatter(axes, method, rays[marked], losses[marked])
    axes.set(xlabel=result.objectives[0], ylabel=result.objectives[1])
    axes.set(xlim=(-0.04 * high[0], high[0]), ylim=(-0.04 * high[1], high[1]))
