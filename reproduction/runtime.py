"""Figures 5 and 11: hypervolume against run time, by random subsets of a pool of models.

``k`` of ``N`` models, trained one after the other, take ``k / N`` of the time of all. Their hypervolume depends on the
choice: the curve is the mean over random subsets, the shade their deviation. A hypernetwork is one point. All times are
measured in the same way (:mod:`hyperfront.comparison.timing`); another learning rate does not change the time.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from hyperfront import indicators
from hyperfront.comparison.result import Result
from hyperfront.front.plots import INK
from reproduction.drawing import MARK_OF, NAME_OF, colour_of, logarithmic, methods_legend, panels
from reproduction.item_result import Claim, ItemResult, Table, shown
from reproduction.store import Store
from reproduction.studies import PHN, SEPARATE

SUBSETS = 50
TEN_TIMES = "a hypernetwork is ten times as fast as models of the same hypervolume"
DASHED = "Dashed: models with another learning rate; on Multi-MNIST sets as many as in table 1."
Point = Mapping[str, float]
"""``seconds`` and ``hypervolume`` of a hypernetwork; ``models``, ``seconds``, ``mean`` and ``std`` of a subset."""
Curves = Mapping[str, Sequence[Point]]
"""The curve of a method by learning rate."""


@dataclass(frozen=True)
class Race:
    """A panel: hypernetworks of one study against a pool of models of another."""

    title: str
    phn: str
    pool: str
    methods: tuple[str, ...] = SEPARATE
    """Methods of the pool."""
    rates: tuple[str, ...] = ()
    """Studies of the same methods with another learning rate."""


def races(store: Store, panels_of: Sequence[Race]) -> ItemResult:
    """A panel and some rows for each race."""
    item, rows, methods, dashed = ItemResult(), [], [], []
    with panels(1, len(panels_of), width=3.4) as (figure, axes):
        for each, race in zip(axes[0], panels_of):
            phn, pool = _points(store, race), _pool(store, race)
            for method, point in phn.items():
                each.plot(*point.values(), marker=MARK_OF[method], color=colour_of(method), markersize=8)
                each.axhline(point["hypervolume"], color=colour_of(method), linewidth=0.8, linestyle=":")
                numbers = shown(point["hypervolume"]), "-", shown(point["seconds"], 1)
                rows.append((race.title, NAME_OF[method], "1", *numbers))
            for method, curves in pool.items():
                for (rate, curve), style in zip(curves.items(), ("-", "--")):
                    _draw(each, method, curve, style)
                    some = (curve[0], curve[len(curve) // 2], curve[-1])
                    rows += [(race.title, f"{NAME_OF[method]}, {rate}", *_cells(point)) for point in some]
                dashed += [*curves][1:]
            logarithmic(each)
            each.set_title(race.title, fontsize=10)
            each.set(xlabel="training time, s", ylabel="test hypervolume")
            named = {NAME_OF[method]: curves for method, curves in pool.items()}
            item.numbers[race.title] = {"pool": named, "phn": phn}
            item.claims += claims(race, phn, named)
            methods += [*pool, *phn]
        lines = [Line2D([], [], color=INK, linestyle="--", label=f"learning rate {rate}") for rate in sorted({*dashed})]
        shade = Patch(color=INK, alpha=0.2, linewidth=0, label="deviation over subsets")
        methods_legend(figure, [*dict.fromkeys(methods)], more=[*lines, shade])
    columns = ("problem", "method", "models", "HV", "deviation over subsets", "seconds")
    item.tables.append(Table("Hypervolume against training time, first seed", columns, rows))
    item.notes += [DASHED] if dashed else []
    item.figure = figure
    return item


def _points(store: Store, race: Race) -> dict[str, dict[str, float]]:
    """Time and hypervolume of each hypernetwork, at the first seed."""
    first = [result for result in store.results(race.phn, PHN) if result.seed == 0]
    seconds = {result.method: store.seconds(race.phn, result.method)["training"] for result in first}
    return {r.method: {"seconds": seconds[r.method], "hypervolume": r.fronts["test"]["hypervolume"]} for r in first}


def _pool(store: Store, race: Race) -> dict[str, Curves]:
    """Curves by method and learning rate, at the first seed."""
    first = [result for result in store.results(race.pool, race.methods) if result.seed == 0]
    rated = [r for name in race.rates for r in store.results(name) if r.seed == 0 and r.method in race.methods]
    found: dict[str, Curves] = {}
    for result in first:
        seconds = store.seconds(race.pool, result.method)["one_by_one"] / len(result.rays)  # of a model
        same = [result, *(other for other in rated if other.method == result.method)]
        found[result.method] = {f"{each.settings['lr']:g}": _curve(each, seconds) for each in same}
    return found


def _curve(result: Result, seconds: float) -> list[dict[str, float]]:
    volumes = subset_volumes(result.losses(), result.reference)
    return [{"models": k, "seconds": k * seconds, "mean": mean, "std": std} for k, (mean, std) in volumes.items()]


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


def _draw(axes: Any, method: str, curve: Sequence[Point], style: str) -> None:
    time, mean, spread = (np.array([point[key] for point in curve]) for key in ("seconds", "mean", "std"))
    colour = colour_of(method)
    axes.plot(time, mean, marker=MARK_OF[method], markersize=3, color=colour, linewidth=1.4, linestyle=style)
    axes.fill_between(time, mean - spread, mean + spread, color=colour, alpha=0.2, linewidth=0)


def _cells(point: Point) -> tuple[str, ...]:
    return f"{point['models']:.0f}", shown(point["mean"]), shown(point["std"]), shown(point["seconds"], 1)


def claims(race: Race, phn: Mapping[str, Point], pool: Mapping[str, Curves]) -> Iterator[Claim]:
    """A claim for each hypernetwork against each method of the pool."""
    for ours, point in phn.items():
        for name, curves in pool.items():
            about = f"{race.title}: {NAME_OF[ours]} is ten times as fast as {name}"
            yield _ten_times(about, point["seconds"], point["hypervolume"], curves)


def _ten_times(about: str, seconds: float, volume: float, curves: Curves) -> Claim:
    """Claim that a hypernetwork takes a tenth of the time of the models that reach its hypervolume, at the faster
    learning rate. The claim is close if 1 % more or less hypervolume would change the verdict."""
    verdicts = [_tenth(seconds, curves, share * volume) for share in (0.99, 1, 1.01)]
    below = {rate: curve for rate, curve in curves.items() if curve[-1]["mean"] < volume}
    reached, rate, point = _needed(below if verdicts[1] is None else curves, volume)
    stay = not reached and verdicts[1]
    models = "all models, which stay below its hypervolume" if stay else "as many models as have its hypervolume"
    count = "1 model" if point["models"] == 1 else f"{point['models']:.0f} models"
    theirs = f"{point['seconds']:,.1f} s (HV {point['mean']:.4f}) of {count} at {rate}"
    numbers = f"{seconds:,.1f} s (HV {volume:.4f}) against {theirs}, first seed"
    numbers += "; more were not trained" if verdicts[1] is None else ""
    close = len({verdict for verdict in verdicts if verdict is not None}) > 1
    return Claim(f"{about} with {models}", verdicts[1], numbers, close, TEN_TIMES)


def _needed(curves: Curves, volume: float) -> tuple[bool, str, Point]:
    """The fewest models that reach a hypervolume, with their learning rate; else all models of the best rate."""
    reached = [(rate, point) for rate, curve in curves.items() for point in curve if point["mean"] >= volume]
    if reached:
        return True, *min(reached, key=lambda found: found[1]["seconds"])
    return False, *max(((rate, curve[-1]) for rate, curve in curves.items()), key=lambda found: found[1]["mean"])


def _tenth(seconds: float, curves: Curves, volume: float) -> bool | None:
    """Whether models with that hypervolume take at least ten times these seconds, at every learning rate. None if
    the models of a rate stay below and are too few to decide."""
    first = [next((point for point in curve if point["mean"] >= volume), None) for curve in curves.values()]
    if any(point and point["seconds"] < 10 * seconds for point in first):
        return False
    enough = (point or 10 * seconds <= curve[-1]["seconds"] for point, curve in zip(first, curves.values()))
    return True if all(enough) else None
