"""Figures 3 and 4: the fronts of Multi-MNIST and how they came about, and the trade-offs of fairness."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.cm import ScalarMappable
from matplotlib.collections import LineCollection
from matplotlib.colors import Normalize
from matplotlib.lines import Line2D

from hyperfront import indicators, plots
from hyperfront.comparison.result import Result
from hyperfront.plots import INK
from hyperfront.plots.static import COLOURS
from reproduction.drawing import MARK_OF, NAME_OF, absent, logarithmic, methods_legend, panels, ray_colours, scatter
from reproduction.item_result import Finding, Table, shown
from reproduction.measurements import evolution, same_rays
from reproduction.store import Workshop
from reproduction.studies import PHN
from reproduction.tables import Side, methods_of


def losses_and_evolution(workshop: Workshop, sides: Sequence[Side]) -> Finding:
    """Above, the test losses of all methods (first seed), with lines for hypernetworks, that of PHN-LS dashed, and
    hollow marks for another learning rate; below, the validation front of PHN-EPO over epochs."""
    finding, rows, methods, rates = Finding(), [], [], set()
    with panels(2, len(sides), height=3.1) as (figure, axes):
        for (above, below), side in zip(axes.T, sides):
            results = [result for result in side.results(workshop) if result.seed == 0]
            there = {result.method for result in results}
            finding.missing.extend(f"{side.title}: {m}" for m in methods_of(workshop, side) if m not in there)
            above.set_title(side.title, fontsize=10)
            for result in results:
                losses, rays = np.array(result.fronts["test"]["losses"]), result.inverse_rays().numpy()
                methods.append(result.method)
                if result.family == "phn":
                    line = "-" if result.method == "phn-epo" else "--"
                    above.plot(*losses.T, color=INK, linewidth=1, linestyle=line)
                    rays, losses = rays[:0], losses[:0]
                    for front in same_rays(workshop, side.phn, [result], side.few(workshop)):
                        rays, losses = np.array(front["rays"]), np.array(front["losses"])
                if len(losses):
                    scatter(above, result.method, rays if result.family != "cpmtl" else [], losses)
                finding.environments.append(dict(result.environment))
            rated = ((study, m) for study in side.rates for m in workshop.study(study).methods if m not in PHN)
            others = [r for study, method in rated for r in workshop.results(study, [method]) if r.seed == 0]
            for result in others:
                scatter(above, result.method, result.inverse_rays().numpy(), result.losses().numpy(), hollow=True)
                rates.add(f"{result.settings['lr']:g}")
            known = any(result.method == "phn-epo" for result in results)
            records = evolution(workshop, side.phn, "phn-epo", 0) if known else None
            if records:
                _over_epochs(figure, below, records)
                rows += [(side.title, *_epoch(record)) for record in plots.spread(records, 5)]
            else:
                finding.missing.append(f"{side.title}: evolution of phn-epo")
            fronts = {result.method: _front(result) for result in results}
            fronts |= {f"{result.method}, {result.settings['lr']:g}": _front(result) for result in others}
            finding.numbers[side.title] = {"fronts": fronts, "evolution": records}
            logarithmic(above, upwards=True)  # the ends of some methods are far out
            for each, drawn, split in ((above, results, "test"), (below, records, "validation")):
                each.set(xlabel=f"{split} loss, left", ylabel=f"{split} loss, right")
                if not drawn:
                    absent(each)
        look: dict[str, Any] = {"color": INK, "markersize": 6, "fillstyle": "none"}
        more = [
            Line2D([], [], color=INK, linewidth=1, linestyle=style, label=f"{NAME_OF[method]}, all rays")
            for method, style in (("phn-epo", "-"), ("phn-ls", "--"))
            if method in methods
        ]
        more += [
            Line2D([], [], marker=MARK_OF["ls"], linestyle="", label=f"learning rate {rate}", **look)
            for rate in sorted(rates)
        ]
        methods_legend(figure, [*dict.fromkeys(methods)], coloured=False, more=more)
    columns = ("problem", "epoch", "validation HV", "validation uniformity")
    finding.tables.append(Table("PHN-EPO over epochs, first seed", columns, rows))
    finding.notes.append(
        "Above, marks are coloured by the ray's entry of the left objective, from 0 (dark) to 1 (light); points of "
        "CPMTL have no ray: those with the first learning rate are filled, with the other one grey. The axes are "
        "logarithmic."
    )
    finding.figure = figure
    return finding


def _front(result: Result) -> dict[str, Any]:
    return {"rays": result.rays, "losses": result.fronts["test"]["losses"]}


def _epoch(record: Mapping[str, Any]) -> tuple[str, str, str]:
    return str(record["epoch"]), shown(record["hypervolume"]), shown(record["uniformity"])


def _over_epochs(figure: Any, axes: Any, records: Sequence[dict[str, Any]]) -> None:
    shown_records = plots.spread(records, 8)
    first, last = shown_records[0]["epoch"], shown_records[-1]["epoch"]
    colour = ScalarMappable(Normalize(first, max(last, first + 1)), COLOURS)
    for record in shown_records:
        axes.plot(
            *np.array(record["losses"]).T, color=colour.to_rgba(record["epoch"]), linewidth=1, marker="o", markersize=2
        )
    figure.colorbar(colour, ax=axes, label="epoch", fraction=0.05, pad=0.02)


def trade_offs(workshop: Workshop, studies: Sequence[str]) -> Finding:
    """Each line is a point of PHN-EPO's front (first seed): cross entropy and the two penalties, each from its least to
    its largest, coloured by ray."""
    finding, rows = Finding(), []
    with panels(1, len(studies), width=3.3) as (figure, axes):
        for each, study in zip(axes[0], studies):
            results = [result for result in workshop.results(study, ["phn-epo"]) if result.seed == 0]
            each.set_title(workshop.study(study).problem, fontsize=10)
            if not results:
                finding.missing.append(f"{study}: phn-epo")
                absent(each)
                continue
            (result,) = results
            losses, rays = np.array(result.fronts["test"]["losses"]), np.array(result.rays)
            low, high = losses.min(0), losses.max(0)
            scaled = (losses - low) / np.maximum(high - low, 1e-12)
            lines = [np.column_stack([np.arange(losses.shape[1]), row]) for row in scaled]
            each.add_collection(LineCollection(lines, colors=list(ray_colours(rays)), linewidths=0.8, alpha=0.7))
            names = [name.replace("_", "\n") for name in result.objectives]
            ends = [f"{name}\n{text}" for name, text in zip(names, _ranges(losses))]
            each.set_xticks(range(losses.shape[1]), ends, fontsize=7)
            each.set_yticks([0, 1], ["least", "most"])
            each.set(xlim=(-0.1, losses.shape[1] - 0.9), ylim=(-0.03, 1.03), ylabel="test loss")
            share = shown(indicators.nondominated_share(result.losses()), 2)
            rows.append((result.problem, str(len(losses)), *_ranges(losses), share))
            finding.numbers[study] = {"rays": result.rays, "losses": result.fronts["test"]["losses"]}
            finding.environments.append(dict(result.environment))
        label = "ray entry of the cross entropy"
        figure.colorbar(
            ScalarMappable(Normalize(0, 1), COLOURS), ax=list(axes[0]), label=label, fraction=0.02, pad=0.01
        )
    columns = ("problem", "rays", "cross entropy", "FP penalty", "FN penalty", "non-dominated")
    finding.tables.append(Table("Ranges of the test losses over the rays of PHN-EPO, first seed", columns, rows))
    finding.figure = figure
    return finding


def _ranges(losses: np.ndarray) -> list[str]:
    return [f"{low:.3f} to {high:.3f}" for low, high in zip(losses.min(0), losses.max(0))]
