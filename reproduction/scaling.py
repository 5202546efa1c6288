"""Figures 6 and 10: hypervolume by the number of parameters, by alpha and by the hidden dimension."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from statistics import fmean, stdev

from torch import Tensor

from hyperfront.comparison.result import Result
from hyperfront.preferences import rays
from reproduction.drawing import MARK_OF, NAME_OF, colour_of, logarithmic, methods_legend, panels
from reproduction.item_result import Claim, ItemResult, Table, above, by_method, fronts_of, quality, shown
from reproduction.measurements import at_rays
from reproduction.store import Store

SMALLER = "a hypernetwork with a tenth of the parameters is above separate ResNet18s"


def against_parameters(store: Store, problems: Mapping[str, Sequence[str]]) -> ItemResult:
    """Hypernetworks of several sizes and separate models: ``problems`` has the studies of each panel, that of the
    separate models first."""
    item, rows, methods = ItemResult(), [], []
    with panels(1, len(problems), width=3.4) as (figure, axes):
        for each, (title, studies) in zip(axes[0], problems.items()):
            results = [result for study in studies for result in store.results(study)]
            few = rays(store.study(studies[0]).rays, 2)
            for method, group in by_method(results).items():
                group.sort(key=lambda result: result.parameters)
                size, volume = zip(*[(r.parameters / 1e6, _volume(r)) for r in group])
                each.plot(size, volume, marker=MARK_OF[method], color=colour_of(method), linewidth=1.2, markersize=6)
                rows += [_row(title, result, few) for result in group]
                methods.append(method)
            logarithmic(each)
            each.set_title(title, fontsize=10)
            each.set(xlabel="parameters to train, millions", ylabel="test hypervolume")
            item.numbers[title] = [[r.method, r.parameters, _volume(r)] for r in results]
            item.claims += claims(title, results)
        methods_legend(figure, [*dict.fromkeys(methods)])
    columns = ("problem", "method", "parameters", "rays", "HV", "HV, same rays", "uniformity")
    item.tables.append(Table("Hypervolume by the number of parameters to train", columns, rows))
    item.figure = figure
    return item


def _row(title: str, result: Result, few: Tensor) -> tuple[str, ...]:
    volume, uniform = quality([result.fronts["test"]])
    counts = f"{result.parameters:,}", str(len(result.rays))
    return title, NAME_OF[result.method], *counts, volume, shown(_volume_at(result, few)), uniform


def claims(title: str, results: Sequence[Result]) -> Iterator[Claim]:
    """Claim that a hypernetwork with a tenth of the parameters, chosen on validation data, is above separate models."""
    separate = [result for result in results if result.family == "per-ray"]
    small = [r for r in results if r.family == "phn" and separate and r.parameters <= separate[0].parameters / 10]
    if not small:
        return
    best, ours = max(separate, key=_volume), max(small, key=lambda r: r.fronts["val"]["hypervolume"])
    text = f"{title}: a hypernetwork with a tenth of the parameters of separate models has a larger hypervolume"
    chosen = f"{ours.parameters:,} of ours, the best on validation data"
    rate = f"at one learning rate, {best.settings['lr']:g}, that was not chosen"
    whose = f"{NAME_OF[best.method]} with {best.parameters:,} parameters, {rate} ({chosen})"
    few = _volume_at(ours, best.inverse_rays())
    yield above(text, [_volume(ours)], [_volume(best)], whose, kind=SMALLER)
    if few is not None:
        yield above(f"{text}, on the same rays", [few], [_volume(best)], whose, kind=SMALLER)


def _volume(result: Result) -> float:
    return result.fronts["test"]["hypervolume"]


def _volume_at(result: Result, rays: Tensor) -> float | None:
    front = at_rays(result, rays)
    return front["hypervolume"] if front else None


def against_settings(store: Store, settings: Mapping[str, Mapping[float, str]]) -> ItemResult:
    """PHN-EPO by the value of a setting: for each name, the study of every value; all seeds, with their deviation."""
    item, rows = ItemResult(), []
    with panels(1, len(settings), width=3.6) as (figure, axes):
        for each, (name, studies) in zip(axes[0], settings.items()):
            known = {}
            for value, study in studies.items():
                results = store.results(study, ["phn-epo"])
                known[value] = [_volume(result) for result in results]
                rows.append((name, f"{value:g}", str(len(results)), *quality(fronts_of(results))))
            means = [fmean(volumes) for volumes in known.values()]
            deviations = [stdev(volumes) if len(volumes) > 1 else 0.0 for volumes in known.values()]
            look = {"color": colour_of("phn-epo"), "marker": "o", "linewidth": 1.4, "capsize": 3}
            each.errorbar([*known], means, yerr=deviations, **look)
            each.set(xlabel=name, ylabel="test hypervolume")
            item.numbers[name] = {f"{value:g}": volumes for value, volumes in known.items()}
            item.claims.append(about_setting(name, known))
    columns = ("setting", "value", "seeds", "HV", "uniformity")
    item.tables.append(Table("PHN-EPO by its settings, Multi-(Fashion+MNIST)", columns, rows))
    item.figure = figure
    return item


def about_setting(name: str, known: Mapping[float, Sequence[float]]) -> Claim:
    """Judge the paper's statement about a setting by the hypervolumes at its values."""
    means = {value: fmean(volumes) for value, volumes in known.items()}
    best, worst = max(means, key=lambda v: means[v]), min(means, key=lambda v: means[v])
    if name == "alpha":
        numbers = f"best {means[best]:.3f} at {best:g}, worst {means[worst]:.3f} at {worst:g}"
        return Claim("the hypervolume hardly depends on alpha (within 2 %)", means[worst] > 0.98 * means[best], numbers)
    other = max((value for value in means if value != 100), key=lambda v: means[v])
    return above("the best hidden dimension is 100", known[100], known[other], f"{other:g}")
