"""Figures 1, 7 and 8: problems with known fronts, one panel for each method."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean
from typing import Any

import numpy as np
import torch

from hyperfront import indicators, plots
from hyperfront.comparison.result import Result
from hyperfront.comparison.table import spread
from hyperfront.plots import INK, MUTED
from hyperfront.problem import Problem
from reproduction.drawing import NAME_OF, absent, panels, ray_colours, scatter
from reproduction.item_result import Claim, Finding, Table, missing_seeds, shown
from reproduction.remarks import spent
from reproduction.store import Workshop

Panel = tuple[str, str]
"""Study and method."""


def known_fronts(workshop: Workshop, rows: Sequence[Sequence[Panel]]) -> Finding:
    """Points and true front of each panel, at the first seed; all seeds are in the table."""
    columns = (
        "problem",
        "method",
        "seeds",
        "rays",
        "HV",
        "uniformity",
        "least uniformity",
        "largest distance",
        "seconds",
    )
    found: dict[Panel, list[Result]] = {}
    for study, method in (panel for row in rows for panel in row):
        found[study, method] = workshop.results(study, [method])
    finding, lines = Finding(), []
    for (study, method), results in found.items():
        missing = missing_seeds(f"{study}: {method}", len(results), workshop.study(study).seeds)
        finding.missing.extend(missing)
        if not results:
            continue
        problem = workshop.problem(workshop.study(study))
        lines.append(_row(problem, method, results))
        finding.claims.extend([] if missing else claims(problem, method, results))
        finding.numbers[f"{study}: {method}"] = [_points(result) for result in results]
        finding.environments.extend(dict(result.environment) for result in results)
        finding.notes.extend(spent(results[0]))
    if not lines:
        return finding
    title = "Known fronts: how near the points of all seeds come to the front and to their rays"
    finding.tables.append(Table(title, columns, lines))
    finding.notes.append("The figure has the points of the first seed.")
    finding.figure = _figure(workshop, rows, found)
    return finding


def _points(result: Result) -> dict[str, Any]:
    return {"seed": result.seed, "rays": result.rays, "losses": result.fronts["test"]["losses"]}


def _row(problem: Problem, method: str, results: Sequence[Result]) -> tuple[str, ...]:
    tests = [result.fronts["test"] for result in results]
    least = [_uniformity(result).min().item() for result in results]
    distances = [_distance(problem, result).max().item() for result in results]
    return (
        problem_name(problem),
        NAME_OF[method],
        str(len(results)),
        str(len(results[0].rays)),
        spread([test["hypervolume"] for test in tests], digits=4),
        spread([test["uniformity"] for test in tests], digits=4),
        f"{min(least):.4f}",
        f"{max(distances):.1e}",
        shown(fmean(result.seconds["training"] for result in results), 1),
    )


def _uniformity(result: Result) -> torch.Tensor:
    return indicators.uniformity(result.losses(), result.inverse_rays())


def _distance(problem: Problem, result: Result) -> torch.Tensor:
    assert problem.truth is not None
    return problem.truth.distance(result.losses())


def claims(problem: Problem, method: str, results: Sequence[Result]) -> list[Claim]:
    """What the paper says of each method on these problems."""
    name, where = NAME_OF[method], problem_name(problem)
    uniform = torch.cat([_uniformity(result) for result in results])
    distances = torch.cat([_distance(problem, result) for result in results])
    distance = distances.max().item()
    numbers = f"least uniformity {uniform.min().item():.4f}, largest distance {distance:.1e}"
    below = distances >= 5e-3
    off = int((below | (uniform <= 0.999)).sum())
    if method == "phn-epo" or (method == "epo" and not where.startswith("zdt2")):
        some = f"{len(uniform) - off} of {len(uniform)} points of all seeds are; " if off else ""
        return [Claim(f"{where}: {name} is on the front and on every ray", off == 0, some + numbers)]
    if method == "epo":
        text = f"{where}: EPO fails to reach the front on some rays"
        return [Claim(text, bool(below.any()), f"{int(below.sum())} of {len(uniform)} points; {numbers}")]
    if method == "ls":
        worst = torch.cat([result.losses().amin(1) for result in results]).max().item()
        return [
            Claim(f"{where}: LS ends at the extremes", worst < 0.02, f"smaller loss of a point at most {worst:.3f}")
        ]
    if method == "pmtl":
        text = f"{where}: PMTL is on the front, near its rays but off them"
        return [Claim(text, 0.5 < uniform.mean().item() < 0.999 and distance < 5e-3, numbers)]
    if method == "mgda":
        text = f"{where}: MGDA is on the front, and does not follow rays"
        return [Claim(text, uniform.min().item() < 0.9 and distance < 5e-3, numbers)]
    return [Claim(f"{where}: {name} does not reach the front to .005 with all its points", distance > 5e-3, numbers)]


def _figure(workshop: Workshop, rows: Sequence[Sequence[Panel]], found: dict[Panel, list[Result]]) -> Any:
    with panels(len(rows), max(map(len, rows)), width=2.4, height=2.5) as (figure, axes):
        for place, row in zip(axes, rows):
            for each, (study, method) in zip(place, row):
                problem = workshop.problem(workshop.study(study))
                each.set_title(
                    NAME_OF[method] if len(rows) == 1 else f"{problem_name(problem)}: {NAME_OF[method]}", fontsize=10
                )
                if found[study, method]:
                    _panel(each, problem, method, found[study, method][0])
                else:
                    absent(each)
    return figure


def problem_name(problem: Problem) -> str:
    """With its box, where that is not the usual one."""
    identity = problem.identity or {}
    return ", ".join([identity.get("problem", "problem"), *filter(None, [identity.get("arguments", {}).get("box")])])


def _panel(axes: Any, problem: Problem, method: str, result: Result) -> None:
    truth, losses = problem.truth, np.array(result.fronts["test"]["losses"])
    assert truth is not None
    points, rays = truth.points.numpy(), result.inverse_rays().numpy()
    high = np.clip(losses.max(0), points.max(0), 1.5 * points.max(0)) * 1.06
    for curve in plots.curves(points):
        axes.plot(*curve.T, color=INK, linewidth=1.2)
    every = max(1, (len(rays) - 1) // 4)  # of a hypernetwork's many rays, those of the others
    marked = np.arange(len(rays)) % every == 0
    lines = plots.half_lines(rays[marked], "inverse", upper=high)
    for line, colour in zip(lines, ray_colours(rays[marked])):
        axes.plot(*line.T, color=colour, linewidth=0.8, linestyle="--")
    if method.startswith("phn-"):
        axes.plot(*losses.T, color=MUTED, linewidth=4, alpha=0.4)
    scatter(axes, method, rays[marked], losses[marked])
    axes.set(xlabel=result.objectives[0], ylabel=result.objectives[1])
    axes.set(xlim=(-0.04 * high[0], high[0]), ylim=(-0.04 * high[1], high[1]))
