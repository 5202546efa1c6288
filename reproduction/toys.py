"""Figures 1, 7 and 8: problems with known fronts, one panel for each method."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import Any

import numpy as np

from hyperfront import indicators
from hyperfront.comparison.result import Result
from hyperfront.front import plots
from hyperfront.front.plots import INK, MUTED
from hyperfront.problem import Problem
from reproduction.drawing import panels, ray_colors, scatter
from reproduction.item_result import ItemResult, Row, Table, front_numbers, fronts_of, quality, shown
from reproduction.store import Store

TITLE = "Known fronts: how near the points of all seeds come to the front and to their rays"
COLUMNS = (
    "problem", "method", "seeds", "rays", "HV", "uniformity", "least uniformity", "largest distance", "seconds",
)  # fmt: skip


def known_fronts(store: Store, rows: Sequence[Sequence[tuple[str, str]]]) -> ItemResult:
    """Points and true front of each panel, a study and a method, at the first seed; the table has all seeds."""
    item, lines = ItemResult(), []
    with panels(len(rows), max(map(len, rows)), width=2.4, height=2.5) as (item.figure, axes):
        for place, panels_of in zip(axes, rows):
            for each, (study, method) in zip(place, panels_of):
                problem, results = store.problem(store.study(study)), store.results(study, [method])
                where = "" if len(rows) == 1 else f"{problem_name(problem)}: "
                each.set_title(where + results[0].kind.label, fontsize=10)
                _draw(each, problem, results[0])
                lines.append(row(problem, results))
                item.numbers[f"{study}: {method}"] = [{"seed": r.seed, **front_numbers(r)} for r in results]
    item.tables.append(Table(TITLE, COLUMNS, lines))
    return item


def row(problem: Problem, results: Sequence[Result]) -> Row:
    """A row of the table: its least uniformity and largest distance are those of any point of any seed."""
    assert problem.truth is not None
    uniform = min(indicators.uniformity(result.losses(), result.inverse_rays()).min().item() for result in results)
    distance = max(problem.truth.distance(result.losses()).max().item() for result in results)
    about = problem_name(problem), results[0].kind.label, str(len(results)), str(len(results[0].rays))
    seconds = shown(fmean(result.seconds["training"] for result in results), 1)
    return *about, *quality(fronts_of(results), 4), f"{uniform:.4f}", f"{distance:.1e}", seconds


def problem_name(problem: Problem) -> str:
    """The name, with the box if it is not the default."""
    identity: Mapping[str, Any] = problem.identity or {}
    return ", ".join([problem.name, *filter(None, [identity.get("arguments", {}).get("box")])])


def _draw(axes: Any, problem: Problem, result: Result) -> None:
    truth, losses = problem.truth, np.array(result.fronts["test"]["losses"])
    assert truth is not None
    points, rays = truth.points.numpy(), result.inverse_rays().numpy()
    high = np.clip(losses.max(0), points.max(0), 1.5 * points.max(0)) * 1.06
    for curve in plots.curves(points):
        axes.plot(*curve.T, color=INK, linewidth=1.2)
    every = max(1, (len(rays) - 1) // 4)  # a hypernetwork has more rays than the others
    marked = np.arange(len(rays)) % every == 0
    lines = plots.half_lines(rays[marked], "inverse", upper=high)
    for line, color in zip(lines, ray_colors(rays[marked])):
        axes.plot(*line.T, color=color, linewidth=0.8, linestyle="--")
    if result.kind.hypernetwork:
        axes.plot(*losses.T, color=MUTED, linewidth=4, alpha=0.4)
    scatter(axes, result.kind, rays[marked], losses[marked])
    axes.set(xlabel=result.objectives[0], ylabel=result.objectives[1])
    axes.set(xlim=(-0.04 * high[0], high[0]), ylim=(-0.04 * high[1], high[1]))
