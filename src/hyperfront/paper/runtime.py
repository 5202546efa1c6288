"""Figures 5 and 11: hypervolume against run time, by random subsets of a pool of models.

``k`` of ``N`` models, trained one after the other, take ``k / N`` of the time of all. How good they are together
depends on which: the curve is the mean over random subsets, the shade their deviation. A hypernetwork is one point. All
times are measured in the same way (:mod:`hyperfront.experiments.timing`); a model takes as long with another learning
rate.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from hyperfront import metrics
from hyperfront.experiments.result import Result
from hyperfront.paper.drawing import MARK_OF, NAME_OF, absent, colour_of, logarithmic, methods_legend, panels
from hyperfront.paper.finding import Claim, Finding, Table, shown
from hyperfront.paper.studies import SEPARATE
from hyperfront.paper.workshop import Workshop

SUBSETS = 50


@dataclass(frozen=True)
class Race:
    """A panel: hypernetworks of one study against a pool of models of another."""

    title: str
    phn: str
    pool: str
    methods: tuple[str, ...] = SEPARATE
    """Of the pool."""
    rate: str | None = None
    """A study of a few LS models with another learning rate."""


def subset_volumes(
    losses: torch.Tensor, reference: Sequence[float], *, seed: int = 0
) -> dict[int, tuple[float, float]]:
    """Mean and deviation of the hypervolume of random subsets of the points ``[N, m]``, by size."""
    generator, count = np.random.default_rng(seed), len(losses)
    found = {}
    for size in range(1, count + 1):
        draws = 1 if size == count else SUBSETS
        chosen = [generator.choice(count, size, replace=False) for _ in range(draws)]
        volumes = [metrics.hypervolume(losses[torch.from_numpy(rows)], tuple(reference)) for rows in chosen]
        found[size] = float(np.mean(volumes)), float(np.std(volumes))
    return found


def races(workshop: Workshop, panels_of: Sequence[Race]) -> Finding:
    """A panel and some rows for each race."""
    finding, rows, methods, dashed = Finding(), [], [], False
    with panels(1, len(panels_of), width=3.4) as (figure, axes):
        for each, race in zip(axes[0], panels_of):
            each.set_title(race.title, fontsize=10)
            pool, no_pool = _timed(workshop, race.pool, race.methods)
            phn, no_phn = _timed(workshop, race.phn, workshop.study(race.phn).methods)
            other = _first_seed(workshop, race.rate)
            no_rate = ["ls with another learning rate"] if race.rate and other is None else []
            missing = [f"{race.title}: {what}" for what in (*no_pool, *no_phn, *no_rate)]
            finding.missing.extend(missing)
            points = {method: _point(*timed) for method, timed in phn.items()}
            for method, point in points.items():
                seconds, volume = point["seconds"], point["hypervolume"]
                each.plot(seconds, volume, marker=MARK_OF[method], color=colour_of(method), markersize=8)
                each.axhline(volume, color=colour_of(method), linewidth=0.8, linestyle=":")
                rows.append((race.title, NAME_OF[method], "1", shown(volume), "-", shown(seconds, 1)))
            curves = {}
            for method, (result, times) in pool.items():
                seconds = times["one_by_one"] / len(result.rays)  # of a model
                curves[NAME_OF[method]] = curve = _curve(result, seconds)
                _draw(each, method, curve, style="-")
                if method == "ls" and other:
                    curves[f"LS, learning rate {other.settings['lr']:g}"] = curve = _curve(other, seconds)
                    _draw(each, method, curve, style="--")
                    dashed = True
            for name, curve in curves.items():
                rows += [_row(race, name, point) for point in (curve[0], curve[len(curve) // 2], curve[-1])]
            logarithmic(each)
            each.set(xlabel="training time, s", ylabel="test hypervolume")
            if not pool | phn:
                absent(each)
            finding.numbers[race.title] = {"pool": curves, "phn": points}
            finding.claims.extend([] if missing else claims(race, points, curves))
            finding.environments.extend(dict(result.environment) for result, _ in (pool | phn).values())
            finding.timed.extend(times["environment"] for _, times in (pool | phn).values())
            methods += [*pool, *phn]
        methods_legend(figure, [*dict.fromkeys(methods)])
    columns = ("problem", "method", "models", "HV", "deviation over subsets", "seconds")
    finding.tables.append(Table("Hypervolume against training time, first seed", columns, rows))
    if dashed:
        finding.notes.append("Dashed: LS with another learning rate than the paper's, as many models as in table 1.")
    finding.figure = figure
    return finding


def _timed(
    workshop: Workshop, study: str, methods: Sequence[str]
) -> tuple[dict[str, tuple[Result, dict[str, Any]]], list[str]]:
    """The first seed of methods with their times, where both are there; and what is missing."""
    results = {result.method: result for result in workshop.results(study, methods) if result.seed == 0}
    times = {method: workshop.seconds(study, method) for method in results}
    missing = [f"{method}, its time" if method in results else method for method in methods if not times.get(method)]
    return {method: (results[method], known) for method, known in times.items() if known}, missing


def _first_seed(workshop: Workshop, study: str | None) -> Result | None:
    results = workshop.results(study, ["ls"]) if study else []
    return next((result for result in results if result.seed == 0), None)


def _curve(result: Result, seconds: float) -> list[dict[str, float]]:
    volumes = subset_volumes(result.losses(), result.reference)
    return [{"models": k, "seconds": k * seconds, "mean": mean, "std": std} for k, (mean, std) in volumes.items()]


def _draw(axes: Any, method: str, curve: list[dict[str, float]], style: str) -> None:
    time, mean, spread = (np.array([point[key] for point in curve]) for key in ("seconds", "mean", "std"))
    look: dict[str, Any] = {"color": colour_of(method), "linewidth": 1.4, "linestyle": style}
    axes.plot(time, mean, marker=MARK_OF[method], markersize=3, **look)
    axes.fill_between(time, mean - spread, mean + spread, color=colour_of(method), alpha=0.2, linewidth=0)


def _row(race: Race, name: str, point: dict[str, float]) -> tuple[str, ...]:
    numbers = shown(point["mean"]), shown(point["std"]), shown(point["seconds"], 1)
    return race.title, name, f"{point['models']:.0f}", *numbers


def _point(result: Result, times: dict[str, float]) -> dict[str, float]:
    return {"seconds": times["training"], "hypervolume": result.fronts["test"]["hypervolume"]}


def claims(race: Race, phn: dict[str, dict[str, float]], curves: dict[str, list[dict[str, float]]]) -> list[Claim]:
    """How much faster the hypernetwork is than as many models as reach its hypervolume, or than all of the pool: how
    many a pool that stays below would need, and how long they would take, is not known unless that is long enough."""
    claims = []
    for ours, (name, curve) in itertools.product(phn, curves.items()):
        seconds, volume = phn[ours]["seconds"], phn[ours]["hypervolume"]
        reached = [point for point in curve if point["mean"] >= volume]
        if not reached and curve[-1]["seconds"] < 10 * seconds:
            continue
        point = reached[0] if reached else curve[-1]
        at = "as many models as have its hypervolume" if reached else "all models, which stay below its hypervolume"
        text = f"{race.title}: {NAME_OF[ours]} is ten times as fast as {name} with {at}"
        theirs = f"{point['seconds']:,.1f} s (HV {point['mean']:.4f}) of {point['models']:.0f} models"
        numbers = f"{seconds:,.1f} s (HV {volume:.4f}) against {theirs}, first seed"
        claims.append(Claim(text, 10 * seconds <= point["seconds"], numbers))
    return claims
