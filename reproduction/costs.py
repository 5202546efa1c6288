"""Figures 5, 6, 10 and 11: hypervolume against run time, the number of parameters, alpha and the hidden dimension.

``k`` of ``N`` models, trained one after the other, take ``k / N`` of the time of all. Their hypervolume depends on the
choice: the curve is the mean over random subsets, the shade their deviation. A hypernetwork is one point. All times are
measured in the same way (:mod:`hyperfront.comparison.timing`); another learning rate does not change the time.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from statistics import fmean, stdev
from typing import Any

import numpy as np
import torch
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from torch import Tensor

from hyperfront import indicators
from hyperfront.comparison.methods import METHODS
from hyperfront.comparison.result import Result, by_method
from hyperfront.front.plots import INK
from hyperfront.preferences import rays
from reproduction.drawing import COLOR_OF, MARK_OF, logarithmic, methods_legend, panels
from reproduction.item_result import ItemResult, Row, Table, first_seed, fronts_of, quality, shown, volume
from reproduction.measurements import at_rays
from reproduction.store import Store

SUBSETS = 50
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
    columns = ("problem", "method", "models", "HV", "deviation over subsets", "seconds")
    needed = ("problem", "hypernetwork", "HV", "seconds", "method", "models", "HV", "seconds", "times as long")
    item.tables.append(Table("Hypervolume against training time, first seed", columns, rows))
    item.tables.append(Table("Models whose mean hypervolume is that of a hypernetwork, first seed", needed, reached))
    return item


def _race(
    store: Store, phn: str, pool: str, methods: Sequence[str] = ("ls", "epo"), rates: Sequence[str] = ()
) -> tuple[Mapping[str, Point], Curves]:
    """Time and hypervolume of each hypernetwork, and the curves of models of the pool; ``rates`` are studies of the
    same methods with another learning rate. All at the first seed."""
    points: dict[str, Point] = {}
    for result in first_seed(store.results(phn)):
        seconds = store.seconds(phn, result.method)["training"]
        points[result.method] = {"seconds": seconds, "hypervolume": volume(result)}
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


def subset_volumes(losses: Tensor, reference: Sequence[float], *, seed: int = 0) -> dict[int, tuple[float, float]]:
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
    for name, curve in _named(pool):
        for point in (curve[0], curve[len(curve) // 2], curve[-1]):
            numbers = shown(point["mean"]), shown(point["std"]), shown(point["seconds"], 1)
            yield title, name, f"{point['models']:.0f}", *numbers


def models_needed(title: str, phn: Mapping[str, Point], pool: Curves) -> Iterator[Row]:
    """The fewest models that reach the hypervolume of a hypernetwork, and how many times its time they take. Where all
    models of a pool stay below, it would take more of them than were trained."""
    for method, ours in phn.items():
        about = title, METHODS[method].label, shown(ours["hypervolume"]), shown(ours["seconds"], 1)
        for name, curve in _named(pool):
            enough = next((point for point in curve if point["mean"] >= ours["hypervolume"]), None)
            theirs, more = enough or curve[-1], "" if enough else "> "
            times = shown(theirs["seconds"], 1), shown(theirs["seconds"] / ours["seconds"], 1)
            yield *about, name, f"{more}{theirs['models']:.0f}", shown(theirs["mean"]), *(more + time for time in times)


def _named(pool: Curves) -> list[tuple[str, Sequence[Point]]]:
    return [(f"{METHODS[method].label}, {rate}", each) for method, of in pool.items() for rate, each in of.items()]


def against_parameters(store: Store, panels_of: Mapping[str, Sequence[str]]) -> ItemResult:
    """Hypernetworks of several sizes and separate models: the studies of each panel, that of the separate models
    first."""
    item, rows, methods = ItemResult(), [], []
    with panels(1, len(panels_of), width=3.4) as (item.figure, axes):
        for each, (title, studies) in zip(axes[0], panels_of.items()):
            results = [result for study in studies for result in store.results(study)]
            few = rays(store.study(studies[0]).rays, 2)
            for method, group in by_method(results).items():
                group.sort(key=lambda result: result.parameters)
                sizes, volumes = [r.parameters / 1e6 for r in group], [*map(volume, group)]
                each.plot(sizes, volumes, marker=MARK_OF[method], color=COLOR_OF[method], linewidth=1.2, markersize=6)
                for r in group:
                    (hv, uniform), same = quality(fronts_of([r])), at_rays(r, few) or {"hypervolume": None}
                    counts = f"{r.parameters:,}", str(len(r.rays))
                    rows.append((title, r.kind.label, *counts, hv, shown(same["hypervolume"]), uniform))
                methods.append(method)
            logarithmic(each)
            each.set_title(title, fontsize=10)
            each.set(xlabel="parameters to train, millions", ylabel="test hypervolume")
            item.numbers[title] = [[r.method, r.parameters, volume(r)] for r in results]
        methods_legend(item.figure, methods)
    columns = ("problem", "method", "parameters", "rays", "HV", "HV, same rays", "uniformity")
    item.tables.append(Table("Hypervolume by the number of parameters to train", columns, rows))
    return item


def against_settings(store: Store, panels_of: Mapping[str, Mapping[str, str]]) -> ItemResult:
    """PHN-EPO by the value of a setting: for each name, the study of every value; all seeds, with their deviation."""
    item, rows = ItemResult(), []
    with panels(1, len(panels_of), width=3.6) as (item.figure, axes):
        for each, (name, studies) in zip(axes[0], panels_of.items()):
            known = {}
            for value, study in studies.items():
                results = store.results(study, ["phn-epo"])
                known[value] = [*map(volume, results)]
                rows.append((name, value, str(len(results)), *quality(fronts_of(results))))
            means = [fmean(volumes) for volumes in known.values()]
            deviations = [stdev(volumes) if len(volumes) > 1 else 0.0 for volumes in known.values()]
            look = {"color": COLOR_OF["phn-epo"], "marker": "o", "linewidth": 1.4, "capsize": 3}
            each.errorbar([*map(float, known)], means, yerr=deviations, **look)
            each.set(xlabel=name, ylabel="test hypervolume")
            item.numbers[name] = known
    columns = ("setting", "value", "seeds", "HV", "uniformity")
    item.tables.append(Table("PHN-EPO by its settings, Multi-(Fashion+MNIST)", columns, rows))
    return item
