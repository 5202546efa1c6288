"""Figures 6 and 10: hypervolume against something: parameters of the hypernetwork, alpha, hidden dimension."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import fmean, stdev
from typing import Any

from torch import Tensor

from hyperfront.comparison.result import Result
from hyperfront.comparison.table import spread
from hyperfront.preferences import rays as laid_out
from reproduction.drawing import MARK_OF, NAME_OF, absent, colour_of, logarithmic, methods_legend, panels
from reproduction.item_result import Claim, Finding, Table, above, missing_seeds, shown
from reproduction.measurements import at_rays
from reproduction.remarks import aligned
from reproduction.store import Workshop

SMALLER = "a hypernetwork with a tenth of the parameters is above separate ResNet18s"


def against_parameters(workshop: Workshop, problems: Mapping[str, Sequence[str]]) -> Finding:
    """Hypernetworks of several sizes and separate models: ``problems`` has the studies of each panel."""
    finding, rows, methods = Finding(), [], []
    with panels(1, len(problems), width=3.4) as (figure, axes):
        for each, (title, studies) in zip(axes[0], problems.items()):
            found = {study: workshop.results(study) for study in studies}
            results = [result for group in found.values() for result in group]
            missing = [
                f"{study}: {method}"
                for study, group in found.items()
                for method in workshop.study(study).methods
                if method not in {result.method for result in group}
            ]
            finding.missing.extend(missing)
            few = laid_out(workshop.study(studies[0]).rays, 2)  # those of the separate models
            each.set_title(title, fontsize=10)
            for method in dict.fromkeys(result.method for result in results):
                group = sorted((r for r in results if r.method == method), key=lambda r: r.parameters)
                size, volume = zip(*[(r.parameters / 1e6, r.fronts["test"]["hypervolume"]) for r in group])
                each.plot(size, volume, marker=MARK_OF[method], color=colour_of(method), linewidth=1.2, markersize=6)
                rows += [_row(title, result, few) for result in group]
                methods.append(method)
            logarithmic(each)
            each.set(xlabel="parameters to train, millions", ylabel="test hypervolume")
            if not results:
                absent(each)
            finding.numbers[title] = [[r.method, r.parameters, r.fronts["test"]["hypervolume"]] for r in results]
            if not missing:
                finding.claims.extend(claims(title, results))
            finding.environments.extend(dict(result.environment) for result in results)
            finding.notes.extend(aligned(title, results))
        methods_legend(figure, [*dict.fromkeys(methods)])
    columns = ("problem", "method", "parameters", "rays", "HV", "HV, same rays", "uniformity")
    finding.tables.append(Table("Hypervolume by the number of parameters to train", columns, rows))
    finding.figure = figure
    return finding


def _row(title: str, result: Result, few: Tensor) -> tuple[str, ...]:
    test = result.fronts["test"]
    return (
        title,
        NAME_OF[result.method],
        f"{result.parameters:,}",
        str(len(result.rays)),
        f"{test['hypervolume']:.3f}",
        shown(_volume_at(result, few)),
        f"{test['uniformity']:.3f}",
    )


def claims(title: str, results: Sequence[Result]) -> list[Claim]:
    """Whether a hypernetwork with a tenth of the parameters, chosen on validation data, is above separate models."""
    separate = [result for result in results if result.family == "per-ray"]
    small = [r for r in results if r.family == "phn" and separate and r.parameters <= separate[0].parameters / 10]
    if not small:
        return []
    best = max(separate, key=lambda r: r.fronts["test"]["hypervolume"])
    ours = max(small, key=lambda r: r.fronts["val"]["hypervolume"])
    text = f"{title}: a hypernetwork with a tenth of the parameters of separate models has a larger hypervolume"
    chosen = f"{ours.parameters:,} of ours, the best on validation data"
    rate = f"at one learning rate, {best.settings['lr']:g}, that was not chosen"
    whose = f"{NAME_OF[best.method]} with {best.parameters:,} parameters, {rate} ({chosen})"
    found = [above(text, _volume(ours), _volume(best), whose, kind=SMALLER)]
    few = _volume_at(ours, best.inverse_rays())
    same = f"{text}, on the same rays"
    return [*found, above(same, [few], _volume(best), whose, kind=SMALLER)] if few is not None else found


def _volume(result: Result) -> list[float]:
    return [result.fronts["test"]["hypervolume"]]


def _volume_at(result: Result, rays: Tensor) -> float | None:
    front = at_rays(result, rays)
    return front["hypervolume"] if front else None


def against_settings(workshop: Workshop, settings: Mapping[str, Mapping[float, str]]) -> Finding:
    """PHN-EPO by the value of a setting: for each name, the study of every value; all seeds, with their deviation."""
    finding, rows = Finding(), []
    with panels(1, len(settings), width=3.6) as (figure, axes):
        for each, (name, studies) in zip(axes[0], settings.items()):
            known: dict[float, list[float]] = {}
            missing = []
            for value, study in studies.items():
                results = workshop.results(study, ["phn-epo"])
                missing += missing_seeds(f"{study}: phn-epo", len(results), workshop.study(study).seeds)
                finding.environments.extend(dict(result.environment) for result in results)
                if results:
                    known[value] = [result.fronts["test"]["hypervolume"] for result in results]
                    uniform = spread([result.fronts["test"]["uniformity"] for result in results])
                    rows.append((name, f"{value:g}", str(len(results)), spread(known[value]), uniform))
            _draw(each, name, known)
            finding.numbers[name] = {f"{value:g}": volumes for value, volumes in known.items()}
            finding.missing.extend(missing)
            if not missing:
                finding.claims.append(about_setting(name, known))
    columns = ("setting", "value", "seeds", "HV", "uniformity")
    finding.tables.append(Table("PHN-EPO by its settings, Multi-(Fashion+MNIST)", columns, rows))
    finding.figure = figure
    return finding


def _draw(axes: Any, name: str, known: Mapping[float, Sequence[float]]) -> None:
    means = [fmean(volumes) for volumes in known.values()]
    deviations = [stdev(volumes) if len(volumes) > 1 else 0.0 for volumes in known.values()]
    axes.errorbar([*known], means, yerr=deviations, color=colour_of("phn-epo"), marker="o", linewidth=1.4, capsize=3)
    axes.set(xlabel=name, ylabel="test hypervolume")


def about_setting(name: str, known: Mapping[float, Sequence[float]]) -> Claim:
    """What the paper says of a setting, by the hypervolumes at its values."""
    means = {value: fmean(volumes) for value, volumes in known.items()}
    best, worst = max(means, key=lambda v: means[v]), min(means, key=lambda v: means[v])
    if name == "alpha":
        numbers = f"best {means[best]:.3f} at {best:g}, worst {means[worst]:.3f} at {worst:g}"
        return Claim("the hypervolume hardly depends on alpha (within 2 %)", means[worst] > 0.98 * means[best], numbers)
    other = max((value for value in means if value != 100), key=lambda v: means[v])
    return above("the best hidden dimension is 100", known[100], known[other], f"{other:g}")
