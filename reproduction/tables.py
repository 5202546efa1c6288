"""The methods of a table: each with its results, times and the best of its learning rates."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from statistics import fmean
from typing import Any

from hyperfront.comparison.methods import EVOLUTIONARY
from hyperfront.comparison.result import Result
from reproduction.drawing import NAME_OF
from reproduction.item_result import by_method, fronts_of
from reproduction.measurements import same_rays
from reproduction.store import Store
from reproduction.studies import PHN


@dataclass(frozen=True)
class Comparison:
    """One problem of a table: its title, and the studies of hypernetworks and of baselines."""

    title: str
    problem: str
    phn: str
    baselines: str | None
    rates: tuple[str, ...] = ()
    """Studies with another learning rate."""
    as_paper: bool = True
    """Whether the paper has these data and settings."""
    each_apart: bool = False
    """Whether hypernetworks are also judged against LS and EPO, each on its own."""

    def results(self, store: Store) -> list[Result]:
        """Results of the baselines, then of the hypernetworks."""
        return [result for name in (self.baselines, self.phn) if name for result in store.results(name)]

    def study_of(self, method: str) -> str:
        """The study that trains a method."""
        return self.phn if self.baselines is None or method in PHN else self.baselines

    def few(self, store: Store) -> int:
        """The number of rays of the baselines, or five."""
        return store.study(self.baselines).rays if self.baselines else 5


@dataclass(frozen=True)
class Measured:
    """A method on one problem: results of all seeds, the same models at the rays of the baselines, and its times."""

    method: str
    results: list[Result]
    same: list[dict[str, Any]] = field(default_factory=list)
    times: Mapping[str, float] = field(default_factory=dict)
    rate: str = ""
    """The choice of the learning rate in words, if there are several."""

    @property
    def fronts(self) -> Sequence[Mapping[str, Any]]:
        """Test fronts by seed."""
        return fronts_of(self.results)

    @property
    def volumes(self) -> list[float]:
        """Test hypervolumes by seed; those of a hypernetwork are at the rays of the baselines."""
        return [front["hypervolume"] for front in (self.same if self.method in PHN else self.fronts)]

    @property
    def name(self) -> str:
        """The method, with the choice of its learning rate."""
        rate = f", {self.rate} ({self.results[0].settings['lr']:g})" if self.rate else ""
        return NAME_OF[self.method] + rate


def measured(store: Store, comparison: Comparison) -> list[Measured]:
    """Every method of a comparison that has results."""
    found = []
    for method, group in by_method(comparison.results(store)).items():
        same = []
        if method in PHN:
            same = same_rays(store, comparison.phn, group, comparison.few(store))
        if method in EVOLUTIONARY:
            times = {"training": fmean(result.seconds["training"] for result in group)}
        else:
            times = store.seconds(comparison.study_of(method), method)
        found.append(Measured(method, group, same, times))
    return found


def better_rates(store: Store, comparison: Comparison, methods: Mapping[str, Measured]) -> list[Measured]:
    """Methods with the best of their learning rates, by the validation hypervolume of the seeds that all rates have;
    if all rates have the same, with another rate. A hypernetwork is left out if its own rate is the best."""
    rated, found = {name: by_method(store.results(name)) for name in comparison.rates}, []
    for method, first in methods.items():
        others = {name: groups[method] for name, groups in rated.items() if method in groups}
        if not others:
            continue
        groups = {comparison.study_of(method): first.results, **others}
        seeds = set.intersection(*({result.seed for result in group} for group in groups.values()))
        volumes = {
            name: fmean(result.fronts["val"]["hypervolume"] for result in group if result.seed in seeds)
            for name, group in groups.items()
        }
        count = len({group[0].settings["lr"] for group in groups.values()})
        rate = "better of two rates" if count == 2 else f"best of {count} rates"
        rate = "another rate" if len({*volumes.values()}) == 1 else rate
        best = max(reversed(volumes), key=lambda name: volumes[name])  # of equals the last, which has another rate
        if method not in PHN:
            found.append(Measured(method, groups[best], rate=rate))
        elif volumes[best] > volumes[comparison.phn]:
            same = same_rays(store, best, groups[best], comparison.few(store))
            found.append(Measured(method, groups[best], same, first.times, rate))
    return found
