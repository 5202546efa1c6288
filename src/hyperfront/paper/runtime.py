"""Figures 5 and 11: hypervolume against run time, by random subsets of a pool of models.

``k`` of ``N`` models, trained one after the other, take ``k / N`` of the time of all. How good they are together
depends on which: the curve is the mean over random subsets, the shade their deviation. A hypernetwork is one point.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from hyperfront import metrics
from hyperfront.experiments.result import Result
from hyperfront.paper.drawing import MARK_OF, NAME_OF, absent, colour_of, logarithmic, methods_legend, panels
from hyperfront.paper.finding import Claim, Finding, Table, shown
from hyperfront.paper.workshop import Workshop

SUBSETS = 50
SIZES = (1, 2, 3, 4, 5, 6, 8, 10, 13, 16, 20, 25, 30, 40)


@dataclass(frozen=True)
class Race:
    """A panel: hypernetworks of one study against a pool of models of another."""

    title: str
    phn: str
    pool: str


def subset_volumes(
    losses: torch.Tensor, reference: Sequence[float], *, seed: int = 0
) -> dict[int, tuple[float, float]]:
    """Mean and deviation of the hypervolume of random subsets of the points ``[N, m]``, by size."""
    generator, count = np.random.default_rng(seed), len(losses)
    found = {}
    for size in [size for size in SIZES if size < count] + [count]:
        draws = 1 if size == count else SUBSETS
        chosen = [generator.choice(count, size, replace=False) for _ in range(draws)]
        volumes = [metrics.hypervolume(losses[torch.from_numpy(rows)], tuple(reference)) for rows in chosen]
        found[size] = float(np.mean(volumes)), float(np.std(volumes))
    return found


def races(workshop: Workshop, panels_of: Sequence[Race]) -> Finding:
    """A panel and some rows for each race."""
    finding, rows, methods = Finding(), [], []
    with panels(1, len(panels_of), width=3.4) as (figure, axes):
        for each, race in zip(axes[0], panels_of):
            pool = [result for result in workshop.results(race.pool) if result.seed == 0]
            phn = [result for result in workshop.results(race.phn) if result.seed == 0]
            each.set_title(race.title, fontsize=10)
            wanted = {*workshop.study(race.pool).methods, *workshop.study(race.phn).methods}
            finding.missing.extend(f"{race.title}: {m}" for m in sorted(wanted - {r.method for r in pool + phn}))
            for result in phn:
                seconds, volume = result.seconds["training"], result.fronts["test"]["hypervolume"]
                each.plot(seconds, volume, marker=MARK_OF[result.method], color=colour_of(result.method), markersize=8)
                each.axhline(volume, color=colour_of(result.method), linewidth=0.8, linestyle=":")
                rows.append((race.title, NAME_OF[result.method], "1", shown(volume), "-", shown(seconds, 1)))
            curves = {result.method: _curve(result) for result in pool}
            for method, curve in curves.items():
                time, mean, spread = (np.array([point[key] for point in curve]) for key in ("seconds", "mean", "std"))
                look: dict[str, Any] = {"color": colour_of(method), "linewidth": 1.4}
                each.plot(time, mean, marker=MARK_OF[method], markersize=3, **look)
                each.fill_between(time, mean - spread, mean + spread, color=colour_of(method), alpha=0.2, linewidth=0)
                rows += [_row(race, method, point) for point in (curve[0], curve[len(curve) // 2], curve[-1])]
            logarithmic(each)
            each.set(xlabel="training time, s", ylabel="test hypervolume")
            if not pool + phn:
                absent(each)
            finding.numbers[race.title] = {"pool": curves, "phn": {r.method: _point(r) for r in phn}}
            finding.claims.extend(_claims(race, phn, curves))
            finding.environments.extend(dict(result.environment) for result in pool + phn)
            methods += [result.method for result in pool + phn]
        methods_legend(figure, [*dict.fromkeys(methods)])
    columns = ("problem", "method", "models", "HV", "deviation over subsets", "seconds")
    finding.tables.append(Table("Hypervolume against training time, first seed", columns, rows))
    finding.figure = figure
    return finding


def _curve(result: Result) -> list[dict[str, float]]:
    each = result.seconds["one_by_one"] / len(result.rays)
    volumes = subset_volumes(result.losses(), result.reference)
    return [{"models": k, "seconds": k * each, "mean": mean, "std": std} for k, (mean, std) in volumes.items()]


def _row(race: Race, method: str, point: dict[str, float]) -> tuple[str, ...]:
    numbers = shown(point["mean"]), shown(point["std"]), shown(point["seconds"], 1)
    return race.title, NAME_OF[method], f"{point['models']:.0f}", *numbers


def _point(result: Result) -> dict[str, float]:
    return {"seconds": result.seconds["training"], "hypervolume": result.fronts["test"]["hypervolume"]}


def _claims(race: Race, phn: Sequence[Result], curves: dict[str, list[dict[str, float]]]) -> list[Claim]:
    """How much faster the hypernetwork is than as many models as reach its hypervolume, or than all of the pool."""
    claims = []
    for result in phn:
        for method, curve in curves.items():
            volume, seconds = result.fronts["test"]["hypervolume"], result.seconds["training"]
            reached = [point for point in curve if point["mean"] >= volume]
            point = reached[0] if reached else curve[-1]
            text = (
                f"{race.title}: {NAME_OF[result.method]} is ten times as fast as {NAME_OF[method]} at its hypervolume"
            )
            how = f"{point['models']:.0f} models" + ("" if reached else ", which do not reach it")
            numbers = f"{seconds:,.1f} s against {point['seconds']:,.1f} s of {how}"
            claims.append(Claim(text, 10 * seconds <= point["seconds"], numbers))
    return claims
