"""Figures 1, 3, 4, 7 and 8: known fronts, the fronts of Multi-MNIST and their evolution, and those of fairness."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from statistics import fmean
from typing import Any

import numpy as np
from matplotlib.cm import ScalarMappable
from matplotlib.collections import LineCollection
from matplotlib.colors import Normalize
from matplotlib.lines import Line2D

from hyperfront import indicators
from hyperfront.comparison.methods import METHODS
from hyperfront.comparison.result import Result
from hyperfront.front import plots
from hyperfront.front.plots import INK, MUTED
from hyperfront.front.plots.static import COLORMAP
from hyperfront.problem import Problem
from reproduction.drawing import MARK_OF, logarithmic, methods_legend, panels, ray_colors, scatter
from reproduction.item_result import ItemResult, Row, Table, first_seed, front_numbers, fronts_of, quality, shown
from reproduction.measurements import evolution
from reproduction.store import Store
from reproduction.tables import COMPARISONS, Comparison

LINES: dict[str, Any] = {"phn-epo": "-", "phn-ls": "--"}


def losses_and_evolution(store: Store, comparisons: Sequence[str]) -> ItemResult:
    """Above, the test losses of all methods (first seed), with lines for hypernetworks and hollow marks for another
    learning rate; below, the validation front of PHN-EPO over epochs."""
    item, rows, methods, rates = ItemResult(), [], [], set()
    with panels(2, len(comparisons), height=3.1) as (item.figure, axes):
        for (above, below), each in zip(axes.T, (COMPARISONS[name] for name in comparisons)):
            results = first_seed(each.results(store))
            rated = first_seed([result for study in each.rates for result in store.results(study)])
            others = [result for result in rated if not result.kind.hypernetwork]
            records = evolution(store, each.phn, next(result for result in results if result.method == "phn-epo"))
            _draw_fronts(store, above, each, results, others)
            _draw_epochs(item.figure, below, records)
            rows += [
                (each.title, str(record["epoch"]), shown(record["hypervolume"]), shown(record["uniformity"]))
                for record in plots.evenly_spaced(records, 5)
            ]
            fronts = {result.method: front_numbers(result) for result in results}
            fronts |= {f"{result.method}, {result.settings['lr']:g}": front_numbers(result) for result in others}
            item.numbers[each.title] = {"fronts": fronts, "evolution": records}
            methods += [result.method for result in results]
            rates |= {f"{result.settings['lr']:g}" for result in others}
        methods_legend(item.figure, methods, colored=False, more=_explained(methods, sorted(rates)))
    columns = ("problem", "epoch", "validation HV", "validation uniformity")
    item.tables.append(Table("PHN-EPO over epochs, first seed", columns, rows))
    return item


def _draw_fronts(
    store: Store, axes: Any, comparison: Comparison, results: Iterable[Result], others: Iterable[Result]
) -> None:
    """A line through all points of a hypernetwork, and marks at the rays of the baselines."""
    for result in results:
        front: Mapping[str, Any] = {"rays": result.inverse_rays(), "losses": result.losses()}
        if result.kind.hypernetwork:
            axes.plot(*result.losses().numpy().T, color=INK, linewidth=1, linestyle=LINES[result.method])
            (front,) = comparison.same(store, comparison.phn, [result])
        scatter(axes, result.kind, front["rays"], front["losses"])
    for result in others:
        scatter(axes, result.kind, result.inverse_rays(), result.losses(), hollow=True)
    axes.set_title(comparison.title, fontsize=10)
    axes.set(xlabel="test loss, left", ylabel="test loss, right")
    logarithmic(axes, upwards=True)  # the ends of some methods are far out


def _explained(methods: Iterable[str], rates: Iterable[str]) -> list[Line2D]:
    """Lines of the legend: all rays of hypernetworks, and the hollow marks of other learning rates."""
    shown = {f"{METHODS[method].label}, all rays": style for method, style in LINES.items() if method in methods}
    lines = [Line2D([], [], color=INK, linewidth=1, linestyle=style, label=label) for label, style in shown.items()]
    look: dict[str, Any] = {"color": INK, "markersize": 6, "fillstyle": "none", "marker": MARK_OF["ls"]}
    return lines + [Line2D([], [], linestyle="", label=f"learning rate {rate}", **look) for rate in rates]


def _draw_epochs(figure: Any, axes: Any, records: Sequence[dict[str, Any]]) -> None:
    some = plots.evenly_spaced(records, 8)
    first, last = some[0]["epoch"], some[-1]["epoch"]
    color = ScalarMappable(Normalize(first, max(last, first + 1)), COLORMAP)
    for record in some:
        look = {"color": color.to_rgba(record["epoch"]), "linewidth": 1, "marker": "o", "markersize": 2}
        axes.plot(*np.array(record["losses"]).T, **look)
    axes.set(xlabel="validation loss, left", ylabel="validation loss, right")
    figure.colorbar(color, ax=axes, label="epoch", fraction=0.05, pad=0.02)


def trade_offs(store: Store, studies: Sequence[str]) -> ItemResult:
    """Each line is a point of PHN-EPO's front (first seed): cross entropy and the two penalties, each from its least to
    its largest, colored by ray."""
    item, rows = ItemResult(), []
    with panels(1, len(studies), width=3.3) as (item.figure, axes):
        for each, study in zip(axes[0], studies):
            result = store.results(study, ["phn-epo"])[0]
            losses = np.array(result.fronts["test"]["losses"])
            ranges = [f"{low:.3f} to {high:.3f}" for low, high in zip(losses.min(0), losses.max(0))]
            share = shown(indicators.nondominated_share(result.losses()), 2)
            rows.append((result.problem, str(len(losses)), *ranges, share))
            item.numbers[study] = front_numbers(result)
            _draw_trade_offs(each, result, losses, ranges)
        look = {"label": "ray entry of the cross entropy", "fraction": 0.02, "pad": 0.01}
        item.figure.colorbar(ScalarMappable(Normalize(0, 1), COLORMAP), ax=list(axes[0]), **look)
    columns = ("problem", "rays", "cross entropy", "FP penalty", "FN penalty", "non-dominated")
    item.tables.append(Table("Ranges of the test losses over the rays of PHN-EPO, first seed", columns, rows))
    return item


def _draw_trade_offs(axes: Any, result: Result, losses: np.ndarray, ranges: Sequence[str]) -> None:
    lines, count = plots.parallel_lines(losses, [*zip(losses.min(0), losses.max(0))]), losses.shape[1]
    axes.add_collection(LineCollection(lines, colors=list(ray_colors(result.rays)), linewidths=0.8, alpha=0.7))
    axes.set_title(result.problem, fontsize=10)
    names = [name.replace("_", "\n") for name in result.objectives]
    axes.set_xticks(range(count), [f"{name}\n{text}" for name, text in zip(names, ranges)], fontsize=7)
    axes.set_yticks([0, 1], ["least", "most"])
    axes.set(xlim=(-0.1, count - 0.9), ylim=(-0.03, 1.03), ylabel="test loss")


def known_fronts(store: Store, rows: Sequence[Sequence[tuple[str, str]]]) -> ItemResult:
    """Points and true front of each panel, a study and a method, at the first seed; the table has all seeds."""
    item, lines = ItemResult(), []
    with panels(len(rows), max(map(len, rows)), width=2.4, height=2.5) as (item.figure, axes):
        for place, panels_of in zip(axes, rows):
            for each, (study, method) in zip(place, panels_of):
                problem, results = store.problem(store.study(study)), store.results(study, [method])
                where = "" if len(rows) == 1 else f"{problem_name(problem)}: "
                each.set_title(where + results[0].kind.label, fontsize=10)
                _draw_known(each, problem, results[0])
                lines.append(known_row(problem, results))
                item.numbers[f"{study}: {method}"] = [{"seed": r.seed, **front_numbers(r)} for r in results]
    about = ("problem", "method", "seeds", "rays", "HV", "uniformity")
    columns = (*about, "least uniformity", "largest distance", "seconds")
    title = "Known fronts: how near the points of all seeds come to the front and to their rays"
    item.tables.append(Table(title, columns, lines))
    return item


def known_row(problem: Problem, results: Sequence[Result]) -> Row:
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


def _draw_known(axes: Any, problem: Problem, result: Result) -> None:
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
