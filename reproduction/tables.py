"""What a table compares: the methods on a problem, each with its results, times and the best of its learning rates."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from statistics import fmean
from typing import Any

from hyperfront.comparison.methods import EVOLUTIONARY
from hyperfront.comparison.result import Result
from reproduction.drawing import NAME_OF
from reproduction.measurements import same_rays
from reproduction.store import Workshop
from reproduction.studies import PHN


@dataclass(frozen=True)
class Side:
    """One problem of a table: its name, the study of hypernetworks, that of the baselines, and their rays."""

    title: str
    problem: str
    phn: str
    baselines: str | None
    rays: int
    rates: tuple[str, ...] = ()
    """Studies with another learning rate."""
    as_paper: bool = True
    """Whether the paper's numbers are of such data and settings."""
    each_apart: bool = False
    """Whether hypernetworks are also judged against LS and EPO, each on its own."""

    def results(self, workshop: Workshop) -> list[Result]:
        """Of the baselines, then of the hypernetworks."""
        return [*(workshop.results(self.baselines) if self.baselines else []), *workshop.results(self.phn)]

    def study_of(self, method: str) -> str:
        """The one that trains it."""
        return self.phn if self.baselines is None or method in PHN else self.baselines

    def few(self, workshop: Workshop) -> int:
        """Rays of the baselines, fewer in a smoke test."""
        return workshop.study(self.baselines).rays if self.baselines else self.rays


@dataclass(frozen=True)
class Measured:
    """A method on one problem: results of all seeds, the same models at the rays of the baselines, and its times."""

    method: str
    results: list[Result]
    same: list[dict[str, Any]]
    times: dict[str, Any]
    rate: str = ""
    """What its learning rate is, where there are two."""

    @property
    def volumes(self) -> list[float]:
        """On the test data, by seed; of a hypernetwork at the rays of the baselines."""
        fronts = self.same if self.method in PHN else [result.fronts["test"] for result in self.results]
        return [front["hypervolume"] for front in fronts]

    @property
    def name(self) -> str:
        """With the learning rate, where it was chosen."""
        rate = f", {self.rate} ({self.results[0].settings['lr']:g})" if self.rate else ""
        return NAME_OF[self.method] + rate

    @property
    def rays(self) -> str:
        """Their number, if the method has some."""
        return str(len(self.results[0].rays) or "-")


def measured(workshop: Workshop, side: Side) -> list[Measured]:
    """Every method of a side that has results."""
    results = side.results(workshop)
    found = []
    for method in dict.fromkeys(result.method for result in results):
        group, seen = [result for result in results if result.method == method], []
        if method.startswith("phn-"):
            seen = same_rays(workshop, side.phn, group, side.few(workshop))
        if method in EVOLUTIONARY:
            times = {"training": fmean(result.seconds["training"] for result in group)}
        else:
            times = workshop.seconds(side.study_of(method), method) or {}
        found.append(Measured(method, group, seen, times))
    return found


def methods_of(workshop: Workshop, side: Side) -> list[str]:
    """Baselines, then hypernetworks, in the order of the paper."""
    return [method for name in (side.baselines, side.phn) if name for method in workshop.study(name).methods]


def better_rates(workshop: Workshop, side: Side, methods: Mapping[str, Measured]) -> list[Measured]:
    """Methods with the best of their learning rates, by the validation hypervolume of the seeds that all have; with
    another one, where that does not say which is better. Hypernetworks only if it is not the one they have anyway."""
    found = []
    for method, first in methods.items():
        rated = [name for name in side.rates if method in workshop.study(name).methods]
        groups = {name: results for name in rated if (results := workshop.results(name, [method]))}
        seeds = set.intersection(*({result.seed for result in group} for group in (first.results, *groups.values())))
        if not groups or not seeds:
            continue
        groups = {side.study_of(method): first.results, **groups}
        volumes = {
            name: fmean(result.fronts["val"]["hypervolume"] for result in group if result.seed in seeds)
            for name, group in groups.items()
        }
        count = len({group[0].settings["lr"] for group in groups.values()})
        rate = "better of two rates" if count == 2 else f"best of {count} rates"
        rate = "another rate" if len({*volumes.values()}) == 1 else rate
        best = max(reversed(volumes), key=lambda name: volumes[name])  # of equals the last one, which is another
        if method not in PHN:
            found.append(Measured(method, groups[best], [], {}, rate))
        elif volumes[best] > volumes[side.phn]:
            same = same_rays(workshop, best, groups[best], side.few(workshop))
            found.append(Measured(method, groups[best], same, first.times, rate))
    return found
