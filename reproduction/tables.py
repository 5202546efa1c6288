"""Tables 1 to 4 and 6: hypernetworks and baselines on the same data, ours beside the paper's."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import fmean
from typing import Any

from hyperfront.comparison.method import Method
from hyperfront.comparison.result import Result, by_method, different
from hyperfront.comparison.table import spread
from reproduction.item_result import ItemResult, Row, Table, above, fronts_of, quality, shown
from reproduction.measurements import kept_points, population, same_rays
from reproduction.paper import NUMBERS, declared, said
from reproduction.store import Store

COLUMNS = (
    "method", "seeds", "rays", "points", "HV", "paper", "uniformity", "paper", "seconds", "one by one", "paper, min",
    "parameters",
)  # fmt: skip
BEST = "Hypernetworks against the baseline with the largest hypervolume at the same rays"
KEPT = "Points of methods with more points than rays: those that no other dominates on validation data"


@dataclass(frozen=True)
class Comparison:
    """One problem of a table: its title, and the studies of hypernetworks and of baselines."""

    title: str
    problem: str
    phn: str
    baselines: str | None = None
    rates: Sequence[str] = ()
    """Studies with another learning rate."""
    as_paper: bool = True
    """Whether the paper has these data and settings."""

    def results(self, store: Store) -> list[Result]:
        """Results of the baselines, then of the hypernetworks."""
        return [result for name in (self.baselines, self.phn) if name for result in store.results(name)]

    def study_of(self, method: Method) -> str:
        """The study that trains a method."""
        return self.phn if method.hypernetwork or self.baselines is None else self.baselines

    def same(self, store: Store, study: str, results: Sequence[Result]) -> list[dict[str, Any]]:
        """The fronts of hypernetworks of a study at the rays of the baselines, or at five; other methods have none."""
        few = store.study(self.baselines).rays if self.baselines else 5
        return same_rays(store, study, results, few) if results[0].kind.hypernetwork else []


COMPARISONS = {name: Comparison(**fields) for name, fields in declared("items")["comparisons"].items()}


@dataclass(frozen=True)
class Measured:
    """A method on one problem: results of all seeds, the same models at the rays of the baselines, and its times."""

    results: Sequence[Result]
    same: Sequence[Mapping[str, Any]] = ()
    """Fronts of hypernetworks at the rays of the baselines."""
    times: Mapping[str, float | None] = field(default_factory=dict)
    rate: str = ""
    """The choice of the learning rate in words, if there are several."""

    @property
    def kind(self) -> Method:
        return self.results[0].kind

    @property
    def volumes(self) -> list[float]:
        """Test hypervolumes by seed, at the rays of the baselines."""
        return [front["hypervolume"] for front in self.same or fronts_of(self.results)]

    @property
    def name(self) -> str:
        """The method, with the choice of its learning rate."""
        return self.kind.label + (f", {self.rate} ({self.results[0].settings['lr']:g})" if self.rate else "")

    def rows(self, comparison: Comparison) -> Iterator[Row]:
        """The method beside the paper's numbers: at its own rays, and at the rays of the baselines."""
        about = comparison.problem if comparison.as_paper and not self.rate else "", self.kind.name
        seconds = (shown(self.times.get(key), 1) for key in ("training", "one_by_one"))
        minutes, parameters = NUMBERS["minutes"].get(about[0], {}).get(about[1], "-"), f"{self.results[0].parameters:,}"
        rays, fronts = str(len(self.results[0].rays) or "-"), fronts_of(self.results)
        yield *_quality(self.name, rays, fronts, said("own-rays", *about)), *seconds, minutes, parameters
        if self.same and not self.rate:
            rays, name = str(len(self.same[0]["rays"])), f"{self.name}, same rays"
            yield *_quality(name, rays, self.same, said("same-rays", *about)), "", "", "", ""

    def document(self) -> dict[str, Any]:
        """Its numbers, for ``data.json``."""
        keys, fronts = ("hypervolume", "uniformity"), fronts_of(self.results)
        return {
            "seeds": [result.seed for result in self.results],
            **{key: [front[key] for front in fronts] for key in keys},
            "seconds": dict(self.times),
            "same_rays": [{key: front[key] for key in keys} for front in self.same],
        }


def _quality(name: str, rays: str, fronts: Sequence[Mapping[str, Any]], paper: Sequence[str]) -> Row:
    """The first columns of a row, up to hypervolume and uniformity beside the paper's."""
    points, (volume, uniform) = str(min(map(different, fronts))), quality(fronts)
    return name, str(len(fronts)), rays, points, volume, paper[0], uniform, paper[1]


def measured(store: Store, comparison: Comparison) -> Iterator[Measured]:
    """Every method of a comparison with its first learning rate, then with the best of its rates. A hypernetwork has no
    second row if its first rate is the best."""
    methods = by_method(comparison.results(store))
    rated = {study: by_method(store.results(study)) for study in comparison.rates}
    for method, first in methods.items():
        kind, own = first[0].kind, comparison.study_of(first[0].kind)
        if kind.population:  # it has no epochs, which could be timed
            times = {"training": fmean(result.seconds["training"] for result in first)}
        else:
            times = store.seconds(own, method)
        yield Measured(first, comparison.same(store, own, first), times)
        groups = {own: first} | {study: groups[method] for study, groups in rated.items() if method in groups}
        best, rate = best_rate(groups)
        if len(groups) > 1 and not (kind.hypernetwork and best == own):
            yield Measured(groups[best], comparison.same(store, best, groups[best]), rate=rate)


def best_rate(groups: Mapping[str, Sequence[Result]]) -> tuple[str, str]:
    """The study with the best learning rate of a method, by the validation hypervolume of the seeds that all of its
    studies have, and the choice in words. Of equals it is the last one, which has another rate than the first."""
    seeds = set.intersection(*({result.seed for result in group} for group in groups.values()))
    volumes = {
        study: fmean(result.fronts["val"]["hypervolume"] for result in group if result.seed in seeds)
        for study, group in groups.items()
    }
    count = len({group[0].settings["lr"] for group in groups.values()})
    words = "better of two rates" if count == 2 else f"best of {count} rates"
    best = max(reversed(volumes), key=lambda study: volumes[study])
    return best, "another rate" if len({*volumes.values()}) == 1 else words


def compared(store: Store, comparisons: Sequence[str]) -> ItemResult:
    """Make a table for each problem, one of hypernetworks against the best baselines, and one of the points that
    validation data keep."""
    item, against, kept = ItemResult(), [], []
    for each in (COMPARISONS[name] for name in comparisons):
        methods = [*measured(store, each)]
        item.tables.append(Table(each.title, COLUMNS, [row for method in methods for row in method.rows(each)]))
        item.numbers[each.title] = {one.name if one.rate else one.kind.name: one.document() for one in methods}
        against += against_best(each.title, methods)
        kept += [row for method in methods for row in _kept(store, each, method)]
    item.tables.append(Table(BEST, ("problem", "method", "HV", "best baseline", "HV", "above"), against))
    if kept:
        item.tables.append(Table(KEPT, ("problem", "method", "points", "HV"), kept))
    return item


def against_best(title: str, methods: Sequence[Measured]) -> Iterator[Row]:
    """Each hypernetwork against the best baseline that has rays."""
    baselines = [each for each in methods if each.kind.has_rays and not each.kind.hypernetwork]
    for ours in methods:
        if ours.kind.hypernetwork and baselines:
            best = max(baselines, key=lambda each: fmean(each.volumes))
            volumes = spread(ours.volumes), spread(best.volumes)
            yield title, ours.name, volumes[0], best.name, volumes[1], above(ours.volumes, best.volumes)


def _kept(store: Store, comparison: Comparison, method: Measured) -> Iterator[Row]:
    """A row for a method with more points than rays: CPMTL, or an evolutionary algorithm with its whole population."""
    if method.kind.population:
        study = comparison.study_of(method.kind)
        losses = [population(store, study, result) for result in method.results]
    elif not method.kind.has_rays:
        losses = [{split: front["losses"] for split, front in r.fronts.items()} for r in method.results]
    else:
        return
    volumes, counts = zip(*(kept_points(method.results[0].reference, each) for each in losses))
    points = f"{min(counts)} to {max(counts)}" if len({*counts}) > 1 else f"{counts[0]}"
    yield comparison.title, method.name, points, spread(volumes)


def at_same_rays(store: Store, comparisons: Sequence[str]) -> ItemResult:
    """Table 6: hypernetworks at the rays of the baselines, all problems in one table."""
    columns = ("problem", "method", "rays", "HV", "paper", "uniformity", "paper", "HV at all rays")
    item, rows = ItemResult(), []
    for each in (COMPARISONS[name] for name in comparisons):
        for method, group in by_method(store.results(each.phn)).items():
            fronts, paper = each.same(store, each.phn, group), said("same-rays", each.problem, method)
            item.numbers.setdefault(each.title, {})[method] = [front["hypervolume"] for front in fronts]
            (volume, uniform), every = quality(fronts), quality(fronts_of(group))[0]
            about = each.title, group[0].kind.label, str(len(fronts[0]["rays"]))
            rows.append((*about, volume, paper[0], uniform, paper[1], every))
    item.tables.append(Table("Hypernetworks at the rays of the baselines", columns, rows))
    return item
