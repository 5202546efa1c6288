"""Figures 6 and 10: hypervolume by the number of parameters, by alpha and by the hidden dimension."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import fmean, stdev

from torch import Tensor

from hyperfront.comparison.result import Result
from hyperfront.preferences import rays
from reproduction.drawing import COLOR_OF, MARK_OF, logarithmic, methods_legend, panels
from reproduction.item_result import ItemResult, Table, by_method, fronts_of, quality, shown
from reproduction.measurements import at_rays
from reproduction.store import Store


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
                size, volume = zip(*[(r.parameters / 1e6, _volume(r)) for r in group])
                each.plot(size, volume, marker=MARK_OF[method], color=COLOR_OF[method], linewidth=1.2, markersize=6)
                rows += [_row(title, result, few) for result in group]
                methods.append(method)
            logarithmic(each)
            each.set_title(title, fontsize=10)
            each.set(xlabel="parameters to train, millions", ylabel="test hypervolume")
            item.numbers[title] = [[r.method, r.parameters, _volume(r)] for r in results]
        methods_legend(item.figure, methods)
    columns = ("problem", "method", "parameters", "rays", "HV", "HV, same rays", "uniformity")
    item.tables.append(Table("Hypervolume by the number of parameters to train", columns, rows))
    return item


def _row(title: str, result: Result, few: Tensor) -> tuple[str, ...]:
    volume, uniform = quality([result.fronts["test"]])
    same, counts = at_rays(result, few), (f"{result.parameters:,}", str(len(result.rays)))
    return title, result.kind.label, *counts, volume, shown(same["hypervolume"] if same else None), uniform


def _volume(result: Result) -> float:
    return result.fronts["test"]["hypervolume"]


def against_settings(store: Store, panels_of: Mapping[str, Mapping[str, str]]) -> ItemResult:
    """PHN-EPO by the value of a setting: for each name, the study of every value; all seeds, with their deviation."""
    item, rows = ItemResult(), []
    with panels(1, len(panels_of), width=3.6) as (item.figure, axes):
        for each, (name, studies) in zip(axes[0], panels_of.items()):
            known = {}
            for value, study in studies.items():
                results = store.results(study, ["phn-epo"])
                known[value] = [_volume(result) for result in results]
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
