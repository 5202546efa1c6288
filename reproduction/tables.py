"""Tables 1 to 4 and 6: hypernetworks and baselines on the same data, ours beside the paper's."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import fmean
from typing import Any

from hyperfront.comparison.methods import EVOLUTIONARY
from hyperfront.comparison.result import Result, different
from hyperfront.comparison.table import spread
from reproduction.drawing import NAME_OF
from reproduction.item_result import Claim, ItemResult, Row, Table, above, by_method, fronts_of, quality, shown
from reproduction.measurements import kept_points, population, same_rays
from reproduction.paper import MINUTES, NUMBERS, SAME_RAYS, Number
from reproduction.store import Store
from reproduction.studies import MNIST, PHN, SEPARATE

COLUMNS = (
    "method", "seeds", "rays", "points", "HV", "paper", "uniformity", "paper", "seconds", "one by one", "paper, min",
    "parameters",
)  # fmt: skip
TIMES = (
    "Seconds are those of training steps alone on the device, measured separately from a few epochs; those of "
    "evolutionary algorithms are the time spent beside other runs."
)

ABOVE = "a hypernetwork is above every baseline in hypervolume on the same rays"
EACH = "on SARCOS, a hypernetwork is above one model per ray, by LS or by EPO, on the same rays"
EXPANDED = "a hypernetwork at all its rays is above CPMTL"
FASTER = "a hypernetwork takes less time than one model per ray, one by one"


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
        return NAME_OF[self.method] + (f", {self.rate} ({self.results[0].settings['lr']:g})" if self.rate else "")

    def rows(self, comparison: Comparison) -> Iterator[Row]:
        """The method beside the paper's numbers: at its own rays, and at the rays of the baselines."""
        problem, like_paper = comparison.problem, comparison.as_paper and not self.rate
        said = NUMBERS.get(problem, {}).get(self.method) if like_paper else None
        few = SAME_RAYS.get(problem, {}).get(self.method) if said else None
        minutes = MINUTES.get(problem, {}).get(self.method) if said else None
        seconds = (shown(self.times.get(key), 1) if not self.rate else "-" for key in ("training", "one_by_one"))
        rest = *seconds, shown(minutes, 1), f"{self.results[0].parameters:,}"
        own, digits = str(len(self.results[0].rays) or "-"), 2 if problem in MNIST else 3
        yield _row(self.name, self.fronts, own, said, rest, digits)
        if self.same and not self.rate:
            rays, none = str(len(self.same[0]["rays"])), ("", "", "", "")
            yield _row(f"{self.name}, same rays", self.same, rays, few, none)

    def document(self) -> dict[str, Any]:
        """Its numbers, for ``data.json``."""
        return {
            "seeds": [result.seed for result in self.results],
            "hypervolume": [front["hypervolume"] for front in self.fronts],
            "uniformity": [front["uniformity"] for front in self.fronts],
            "seconds": dict(self.times),
            "same_rays": [{key: front[key] for key in ("hypervolume", "uniformity")} for front in self.same],
        }


def _row(
    name: str, fronts: Sequence[Mapping[str, Any]], rays: str, said: Number | None, rest: Row, digits: int = 3
) -> Row:
    """Hypervolume and uniformity beside the paper's, and the ``rest``: times and parameters."""
    volume, uniform = quality(fronts)
    theirs = (shown(said.hypervolume, digits), shown(said.uniformity)) if said else ("-", "-")
    points = str(min(map(different, fronts)))
    return name, str(len(fronts)), rays, points, volume, theirs[0], uniform, theirs[1], *rest


def measured(store: Store, comparison: Comparison) -> dict[str, Measured]:
    """Every method of a comparison that has results, by name."""
    found = {}
    for method, group in by_method(comparison.results(store)).items():
        same = same_rays(store, comparison.phn, group, comparison.few(store)) if method in PHN else []
        if method in EVOLUTIONARY:
            times = {"training": fmean(result.seconds["training"] for result in group)}
        else:
            times = store.seconds(comparison.study_of(method), method)
        found[method] = Measured(method, group, same, times)
    return found


def better_rates(store: Store, comparison: Comparison, methods: Mapping[str, Measured]) -> dict[str, Measured]:
    """Methods with the best of their learning rates, by the validation hypervolume of the seeds that all rates have;
    if all rates have the same, with another rate. A hypernetwork is left out if its own rate is the best."""
    rated, found = {name: by_method(store.results(name)) for name in comparison.rates}, {}
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
            found[method] = Measured(method, groups[best], rate=rate)
        elif volumes[best] > volumes[comparison.phn]:
            same = same_rays(store, best, groups[best], comparison.few(store))
            found[method] = Measured(method, groups[best], same, first.times, rate)
    return found


def compared(store: Store, comparisons: Sequence[Comparison]) -> ItemResult:
    """Make a table for each problem, claims about it, and a table of the points that validation data keep."""
    item, kept = ItemResult(notes=[TIMES]), []
    for each in comparisons:
        methods = measured(store, each)
        tuned = better_rates(store, each, methods)
        both = [[method, *([tuned[name]] if name in tuned else [])] for name, method in methods.items()]
        rows = [row for group in both for method in group for row in method.rows(each)]
        item.tables.append(Table(each.title, COLUMNS, rows))
        chosen = [method for name, method in methods.items() if name not in PHN or name not in tuned]
        item.claims += claims(each, [*chosen, *tuned.values()])
        named = methods | {method.name: method for method in tuned.values()}
        item.numbers[each.title] = {name: method.document() for name, method in named.items()}
        kept += [row for method in named.values() for row in _kept(store, each, method)]
    if kept:
        title = "Points of methods with more points than rays: those that no other dominates on validation data"
        item.tables.append(Table(title, ("problem", "method", "points", "HV"), kept))
    return item


def claims(comparison: Comparison, methods: Sequence[Measured]) -> Iterator[Claim]:
    """Whether hypernetworks are above the best baseline, and faster than separate models one by one. CPMTL has many
    points and no rays: it is compared with all points of a hypernetwork."""
    baselines = [each for each in methods if each.method not in (*PHN, "cpmtl")]
    for ours in (each for each in methods if each.method in PHN and each.same and baselines):
        name, solver = f"{comparison.title}: {NAME_OF[ours.method]}", ours.method.removeprefix("phn-")
        text = f"{name} above every baseline in hypervolume on the same rays"
        yield from _above_best(text, ours.volumes, baselines, ABOVE)
        for other in SEPARATE if comparison.each_apart else ():
            text = f"{name} above {NAME_OF[other]} with one model per ray, on the same rays"
            yield from _above_best(text, ours.volumes, [each for each in baselines if each.method == other], EACH)
        volumes = [front["hypervolume"] for front in ours.fronts]
        text = f"{name} at all its {len(ours.results[0].rays)} rays above CPMTL"
        yield from _above_best(text, volumes, [each for each in methods if each.method == "cpmtl"], EXPANDED)
        alone = next((each.times.get("one_by_one") for each in methods if each.method == solver), None)
        if alone and (seconds := ours.times.get("training")):
            text = f"{name} takes less time than {NAME_OF[solver]} with one model per ray, one by one"
            yield Claim(text, seconds < alone, f"{seconds:,.1f} s against {alone:,.1f} s", kind=FASTER)


def _above_best(text: str, ours: Sequence[float], theirs: Sequence[Measured], kind: str) -> Iterator[Claim]:
    if theirs:
        best = max(theirs, key=lambda each: fmean(each.volumes))
        points = f" ({len(best.fronts[0]['losses'])} points)" if best.method == "cpmtl" else ""
        yield above(text, ours, best.volumes, best.name + points, kind=kind)


def _kept(store: Store, comparison: Comparison, method: Measured) -> list[Row]:
    """A row for a method with more points than rays: CPMTL, or an evolutionary algorithm with its whole population."""
    if method.method == "cpmtl":
        losses = [{split: front["losses"] for split, front in r.fronts.items()} for r in method.results]
    elif method.method in EVOLUTIONARY:
        study = comparison.study_of(method.method)
        losses = [population(store, study, method.method, result.seed) for result in method.results]
    else:
        return []
    volumes, counts = zip(*(kept_points(method.results[0].reference, each) for each in losses))
    points = f"{min(counts)} to {max(counts)}" if len({*counts}) > 1 else f"{counts[0]}"
    return [(comparison.title, method.name, points, spread(volumes))]


def at_same_rays(store: Store, comparisons: Sequence[Comparison]) -> ItemResult:
    """Table 6: hypernetworks at the rays of the baselines, all problems in one table."""
    columns = ("problem", "method", "rays", "HV", "paper", "uniformity", "paper", "HV at all rays")
    item, rows = ItemResult(), []
    for each in comparisons:
        few = each.few(store)
        for method, group in by_method(store.results(each.phn)).items():
            fronts, said = same_rays(store, each.phn, group, few), SAME_RAYS[each.problem][method]
            item.numbers.setdefault(each.title, {})[method] = [front["hypervolume"] for front in fronts]
            volume, uniform = quality(fronts)
            theirs, every = (shown(said.hypervolume), shown(said.uniformity)), quality(fronts_of(group))[0]
            rows.append((each.title, NAME_OF[method], str(few), volume, theirs[0], uniform, theirs[1], every))
    item.tables.append(Table("Hypernetworks at the rays of the baselines", columns, rows))
    return item
