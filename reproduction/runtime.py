"""Figures 5 and 11: hypervolume against run time, by random subsets of a pool of models.

``k`` of ``N`` models, trained one after the other, take ``k / N`` of the time of all. Their hypervolume depends on the
choice: the curve is the mean over random subsets, the shade their deviation. A hypernetwork is one point. All times are
measured in the same way (:mod:`hyperfront.comparison.timing`); another learning rate does not change the time.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from hyperfront import indicators
from hyperfront.comparison.methods import METHODS
from hyperfront.comparison.result import Result
from hyperfront.front.plots import INK
from reproduction.drawing import COLOR_OF, MARK_OF, logarithmic, methods_legend, panels
from reproduction.item_result import ItemResult, Row, Table, first_seed, shown
from reproduction.store import Store

SUBSETS = 50
COLUMNS = ("problem", "method", "models", "HV", "deviation over subsets", "seconds")
REACHED = ("problem", "hypernetwork", "HV", "seconds", "method", "models", "HV", "seconds", "times as long")
Point = Mapping[str, float]
"""``seconds`` and ``hypervolume`` of a hypernetwork; ``models``, ``seconds``, ``mean`` and ``std`` of a subset."""
Curves = Mapping[str, Mapping[str, Sequence[Point]]]
"""Curves by method and learning rate."""


def races(store: Store, panels_of: Mapping[str, Mapping[str, Any]]) -> ItemResult:
    """A panel and some rows for each race: hypernetworks of the study ``phn`` against models of the study ``pool``."""
    item, rows, reached, methods, dashed = ItemResult(), [], [], [], set()
    with panels(1, len(panels_of), width=3.4) as (item.figure, axes):
        for each, (title, studies) in zip(axes[0], panels_of.items()):
            phn, pool = _race(store, **studies)
            _draw(each, phn, pool)
            each.set_title(title, fontsize=10)
            rows += _rows(title, phn, pool)
            reached += models_needed(title, phn, pool)
            item.numbers[title] = {"pool": {METHODS[m].label: curves for m, curves in pool.items()}, "phn": phn}
            methods += [*pool, *phn]
            dashed |= {rate for curves in pool.values() for rate in [*curves][1:]}
        lines = [Line2D([], [], color=INK, linestyle="--", label=f"learning rate {rate}") for rate in sorted(dashed)]
        shade = Patch(color=INK, alpha=0.2, linewidth=0, label="deviation over subsets")
        methods_legend(item.figure, methods, more=[*lines, shade])
    item.tables.append(Table("Hypervolume against training time, first seed", COLUMNS, rows))
    item.tables.append(Table("Models whose mean hypervolume is that of a hypernetwork, first seed", REACHED, reached))
    return item


def _race(
    store: Store, phn: str, pool: str, methods: Sequence[str] = ("ls", "epo"), rates: Sequence[str] = ()
) -> tuple[Mapping[str, Point], Curves]:
    """Time and hypervolume of each hypernetwork, and the curves of models of the pool; ``rates`` are studies of the
    same methods with another learning rate. All at the first seed."""
    points: dict[str, Point] = {}
    for result in first_seed(store.results(phn)):
        seconds = store.seconds(phn, result.method)["training"]
        points[result.method] = {"seconds": seconds, "hypervolume": result.fronts["test"]["hypervolume"]}
    first, curves = first_seed(store.results(pool, methods)), {}
    rated = first_seed([result for study in rates for result in store.results(study)])
    for result in first:
        seconds = store.seconds(pool, result.method)["one_by_one"] / len(result.rays)  # of a model
        same = [result, *(other for other in rated if other.method == result.method)]
        curves[result.method] = {f"{each.settings['lr']:g}": _curve(each, seconds) for each in same}
    return points, curves


def _curve(result: Result, seconds: float) -> list[Point]:
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


def _draw(axes: Any, phn: Mapping[str, Point], pool: Curves) -> None:
    for method, point in phn.items():
        axes.plot(*point.values(), marker=MARK_OF[method], color=COLOR_OF[method], markersize=8)
        axes.axhline(point["hypervolume"], color=COLOR_OF[method], linewidth=0.8, linestyle=":")
    for method, curves in pool.items():
        look: dict[str, Any] = {"marker": MARK_OF[method], "markersize": 3, "color": COLOR_OF[method], "linewidth": 1.4}
        for curve, style in zip(curves.values(), ("-", "--")):
            time, mean, spread = (np.array([point[key] for point in curve]) for key in ("seconds", "mean", "std"))
            axes.plot(time, mean, linestyle=style, **look)
            axes.fill_between(time, mean - spread, mean + spread, color=COLOR_OF[method], alpha=0.2, linewidth=0)
    logarithmic(axes)
    axes.set(xlabel="training time, s", ylabel="test hypervolume")


def _rows(title: str, phn: Mapping[str, Point], pool: Curves) -> Iterator[Row]:
    """The hypernetworks, and one model, half of the models and all models of each pool."""
    for method, point in phn.items():
        yield title, METHODS[method].label, "1", shown(point["hypervolume"]), "-", shown(point["seconds"], 1)
    for method, curves in pool.items():
        for rate, curve in curves.items():
            for point in (curve[0], curve[len(curve) // 2], curve[-1]):
                numbers = shown(point["mean"]), shown(point["std"]), shown(point["seconds"], 1)
                yield title, f"{METHODS[method].label}, {rate}", f"{point['models']:.0f}", *numbers


def models_needed(title: str, phn: Mapping[str, Point], pool: Curves) -> Iterator[Row]:
    """The fewest models that reach the hypervolume of a hypernetwork, and how many times its time they take. Where all
    models of a pool stay below, it would take more of them than were trained."""
    for name, ours in phn.items():
        for method, curves in pool.items():
            for rate, curve in curves.items():
                enough = next((point for point in curve if point["mean"] >= ours["hypervolume"]), None)
                theirs, more = enough or curve[-1], "" if enough else "> "
                times = shown(theirs["seconds"], 1), shown(theirs["seconds"] / ours["seconds"], 1)
                about = title, METHODS[name].label, shown(ours["hypervolume"]), shown(ours["seconds"], 1)
                models = f"{METHODS[method].label}, {rate}", f"{more}{theirs['models']:.0f}", shown(theirs["mean"])
                yield *about, *models, *(more + time for time in times)
