"""Figures 5 and 11: hypervolume against run time, by random subsets of a pool of models.

``k`` of ``N`` models, trained one after the other, take ``k / N`` of the time of all. How good they are together
depends on which: the curve is the mean over random subsets, the shade their deviation. A hypernetwork is one point. All
times are measured in the same way (:mod:`hyperfront.comparison.timing`); a model takes as long with another learning
rate.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from hyperfront import indicators
from hyperfront.comparison.result import Result
from hyperfront.plots import INK
from reproduction.drawing import MARK_OF, NAME_OF, absent, colour_of, logarithmic, methods_legend, panels
from reproduction.item_result import Claim, Finding, Table, shown
from reproduction.store import Workshop
from reproduction.studies import SEPARATE

SUBSETS = 50
TEN_TIMES = "a hypernetwork is ten times as fast as models of the same hypervolume"


@dataclass(frozen=True)
class Race:
    """A panel: hypernetworks of one study against a pool of models of another."""

    title: str
    phn: str
    pool: str
    methods: tuple[str, ...] = SEPARATE
    """Of the pool."""
    rates: tuple[str, ...] = ()
    """Studies of models with another learning rate, of some as many."""


def subset_volumes(
    losses: torch.Tensor, reference: Sequence[float], *, seed: int = 0
) -> dict[int, tuple[float, float]]:
    """Mean and deviation of the hypervolume of random subsets of the points ``[N, m]``, by size."""
    generator, count = np.random.default_rng(seed), len(losses)
    found = {}
    for size in range(1, count + 1):
        draws = 1 if size == count else SUBSETS
        chosen = [generator.choice(count, size, replace=False) for _ in range(draws)]
        volumes = [indicators.hypervolume(losses[torch.from_numpy(rows)], tuple(reference)) for rows in chosen]
        found[size] = float(np.mean(volumes)), float(np.std(volumes))
    return found


def races(workshop: Workshop, panels_of: Sequence[Race]) -> Finding:
    """A panel and some rows for each race."""
    finding, rows, methods, dashed = Finding(), [], [], set()
    with panels(1, len(panels_of), width=3.4) as (figure, axes):
        for each, race in zip(axes[0], panels_of):
            each.set_title(race.title, fontsize=10)
            pool, no_pool = _timed(workshop, race.pool, race.methods)
            phn, no_phn = _timed(workshop, race.phn, workshop.study(race.phn).methods)
            others, no_rate = _other_rates(workshop, race)
            missing = [f"{race.title}: {what}" for what in (*no_pool, *no_phn, *no_rate)]
            finding.missing.extend(missing)
            points = {method: _point(*timed) for method, timed in phn.items()}
            for method, point in points.items():
                seconds, volume = point["seconds"], point["hypervolume"]
                each.plot(seconds, volume, marker=MARK_OF[method], color=colour_of(method), markersize=8)
                each.axhline(volume, color=colour_of(method), linewidth=0.8, linestyle=":")
                rows.append((race.title, NAME_OF[method], "1", shown(volume), "-", shown(seconds, 1)))
            curves: dict[str, dict[str, list[dict[str, float]]]] = {}
            for method, (result, times) in pool.items():
                seconds = times["one_by_one"] / len(result.rays)  # of a model
                curves[NAME_OF[method]] = of_rates = {_rate(result): _curve(result, seconds)}
                _draw(each, method, of_rates[_rate(result)], style="-")
                if other := others.get(method):
                    of_rates[_rate(other)] = _curve(other, seconds)
                    _draw(each, method, of_rates[_rate(other)], style="--")
                    dashed.add(_rate(other))
                for rate, curve in of_rates.items():
                    some = (curve[0], curve[len(curve) // 2], curve[-1])
                    rows += [_row(race, f"{NAME_OF[method]}, {rate}", point) for point in some]
            logarithmic(each)
            each.set(xlabel="training time, s", ylabel="test hypervolume")
            if not pool | phn:
                absent(each)
            finding.numbers[race.title] = {"pool": curves, "phn": points}
            finding.claims.extend([] if missing else claims(race, points, curves))
            finding.environments.extend(dict(result.environment) for result, _ in (pool | phn).values())
            finding.timed.extend(times["environment"] for _, times in (pool | phn).values())
            methods += [*pool, *phn]
        lines = [Line2D([], [], color=INK, linestyle="--", label=f"learning rate {rate}") for rate in sorted(dashed)]
        shade = [Patch(color=INK, alpha=0.2, linewidth=0, label="deviation over subsets")]
        methods_legend(figure, [*dict.fromkeys(methods)], more=[*lines, *shade])
    columns = ("problem", "method", "models", "HV", "deviation over subsets", "seconds")
    finding.tables.append(Table("Hypervolume against training time, first seed", columns, rows))
    if dashed:
        finding.notes.append("Dashed: models with another learning rate; on Multi-MNIST sets as many as in table 1.")
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


def _other_rates(workshop: Workshop, race: Race) -> tuple[dict[str, Result], list[str]]:
    """The first seed of methods with another learning rate, and what is missing of that."""
    wanted = [(study, m) for study in race.rates for m in workshop.study(study).methods if m in race.methods]
    found = [result for study, method in wanted for result in workshop.results(study, [method]) if result.seed == 0]
    known = {result.method: result for result in found}
    return known, [f"{method} with another learning rate" for _, method in wanted if method not in known]


def _rate(result: Result) -> str:
    return f"{result.settings['lr']:g}"


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


def claims(
    race: Race, phn: dict[str, dict[str, float]], curves: dict[str, dict[str, list[dict[str, float]]]]
) -> list[Claim]:
    """Whether a hypernetwork takes a tenth of the time of as many models as reach its hypervolume, with whichever
    learning rate that is sooner; close if it would be otherwise for 1 % more or less of hypervolume."""
    claims = []
    for ours, (name, of_rates) in itertools.product(phn, curves.items()):
        seconds, volume = phn[ours]["seconds"], phn[ours]["hypervolume"]
        verdicts = [_tenth(seconds, of_rates, share * volume) for share in (0.99, 1, 1.01)]
        below = {rate: curve for rate, curve in of_rates.items() if curve[-1]["mean"] < volume}
        reached, rate, point = _needed(below if verdicts[1] is None else of_rates, volume)
        at = "as many models as have its hypervolume"
        if not reached and verdicts[1]:
            at = "all models, which stay below its hypervolume"
        text = f"{race.title}: {NAME_OF[ours]} is ten times as fast as {name} with {at}"
        theirs = f"{point['seconds']:,.1f} s (HV {point['mean']:.4f}) of {_models(point['models'])} at {rate}"
        numbers = f"{seconds:,.1f} s (HV {volume:.4f}) against {theirs}, first seed"
        numbers += "; more were not trained" if verdicts[1] is None else ""
        close = len({verdict for verdict in verdicts if verdict is not None}) > 1
        claims.append(Claim(text, verdicts[1], numbers, close, TEN_TIMES))
    return claims


def _models(number: float) -> str:
    return "1 model" if number == 1 else f"{number:.0f} models"


def _needed(of_rates: dict[str, list[dict[str, float]]], volume: float) -> tuple[bool, str, dict[str, float]]:
    """The least models that have a hypervolume, with their learning rate; where none have, all that come nearest."""
    reached = [(rate, p) for rate, curve in of_rates.items() for p in curve if p["mean"] >= volume]
    if reached:
        return True, *min(reached, key=lambda found: found[1]["seconds"])
    return False, *max(((rate, curve[-1]) for rate, curve in of_rates.items()), key=lambda found: found[1]["mean"])


def _tenth(seconds: float, of_rates: dict[str, list[dict[str, float]]], volume: float) -> bool | None:
    """Whether these are at most a tenth of the time of models with that hypervolume, at every learning rate. None where
    the models of a rate that stays below are too few to say."""
    first = [next((p for p in curve if p["mean"] >= volume), None) for curve in of_rates.values()]
    if any(point and point["seconds"] < 10 * seconds for point in first):
        return False
    enough = (point or 10 * seconds <= curve[-1]["seconds"] for point, curve in zip(first, of_rates.values()))
    return True if all(enough) else None
