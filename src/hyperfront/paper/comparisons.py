"""Tables 1 to 4 and 6: hypernetworks and baselines on the same data, ours beside the paper's."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any

from hyperfront.experiments.methods import EVOLUTIONARY
from hyperfront.experiments.result import Result, different
from hyperfront.experiments.table import spread
from hyperfront.paper.drawing import NAME_OF
from hyperfront.paper.finding import Claim, Finding, Table, above, missing_seeds, shown
from hyperfront.paper.looks import same_rays
from hyperfront.paper.numbers import MINUTES, TABLE_6, Number, Numbers
from hyperfront.paper.remarks import begun_anew, ignored_rays, kept, spent
from hyperfront.paper.studies import MNIST, PHN
from hyperfront.paper.workshop import Workshop

COLUMNS = (
    "method", "seeds", "rays", "points", "HV", "paper", "uniformity", "paper", "seconds", "one by one", "paper, min",
    "parameters",
)  # fmt: skip
TIMES = (
    "Seconds are of training steps alone on the device, measured on their own from a few epochs; those of evolutionary "
    "algorithms are as spent, beside other runs."
)
ABOVE = "a hypernetwork is above every baseline in hypervolume on the same rays"
EXPANDED = "a hypernetwork at all its rays is above CPMTL"
FASTER = "a hypernetwork takes less time than one model per ray, one by one"


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


def compared(workshop: Workshop, sides: Sequence[Side], paper: Numbers) -> Finding:
    """A table for each problem, and whether hypernetworks are above the baselines there, as soon as that is certain:
    one baseline is enough for a no."""
    finding = Finding(notes=[TIMES])
    for side in sides:
        methods = {each.method: each for each in measured(workshop, side)}
        tuned = {each.method: each for each in better_rates(workshop, side, methods)}
        rows = []
        for method in methods_of(workshop, side):
            rows += _rows(side, method, methods.get(method), paper[side.problem] if side.as_paper else {})
            rows += [_tuned_row(tuned[method])] if method in tuned else []
        missing = [*_missing(workshop, side, methods)]
        finding.missing.extend([*missing, *_untimed(side, methods)])
        finding.tables.append(Table(side.title, COLUMNS, rows))
        known = [each for each in methods.values() if _whole(workshop, side, each)]
        known = [each for each in known if each.method not in PHN or each.method not in tuned]
        found = claims(side, [*known, *tuned.values()])
        finding.claims.extend(claim for claim in found if not missing or claim.verdict == "no")
        for each in methods.values():
            finding.notes.extend([*spent(each.results[0]), *ignored_rays(side.title, each.results)])
        if {"ls", "cpmtl"} <= methods.keys():
            finding.notes.extend(begun_anew(side.title, *(methods[name].results for name in ("ls", "cpmtl"))))
        expanded = (each for each in (*methods.values(), *tuned.values()) if each.method == "cpmtl")
        finding.notes.extend(kept(f"{side.title}, {each.name}", each.results) for each in expanded)
        named = methods | {each.name: each for each in tuned.values()}
        finding.numbers[side.title] = {name: _document(each) for name, each in named.items()}
        finding.environments.extend(dict(result.environment) for each in named.values() for result in each.results)
        finding.timed.extend(e for each in methods.values() if (e := each.times.get("environment")))
    return finding


def _points(fronts: Sequence[Mapping[str, Any]]) -> int:
    """Different points of a front, of the one that has fewest."""
    return min(map(different, fronts))


def _missing(workshop: Workshop, side: Side, methods: Mapping[str, Measured]) -> Iterator[str]:
    """Methods without results, or with too few."""
    for name in side.rates:
        for method in workshop.study(name).methods:
            count, seeds = len(workshop.results(name, [method])), workshop.study(name).seeds
            yield from missing_seeds(f"{side.title}: {method} with another learning rate", count, seeds)
    for study in (workshop.study(name) for name in (side.baselines, side.phn) if name):
        for method in study.methods:
            count = len(methods[method].results) if method in methods else 0
            yield from missing_seeds(f"{side.title}: {method}", count, study.seeds)
            if count >= study.seeds and method.startswith("phn-") and len(methods[method].same) < count:
                yield f"{side.title}: {method} at the rays of the baselines"


def _whole(workshop: Workshop, side: Side, each: Measured) -> bool:
    """Whether all seeds of a method are there, at the same rays."""
    fronts = each.same if each.method in PHN else each.results
    return len(fronts) >= workshop.study(side.study_of(each.method)).seeds


def _untimed(side: Side, methods: Mapping[str, Measured]) -> Iterator[str]:
    return (f"{side.title}: {name}, its time" for name, method in methods.items() if not method.times)


def _rows(side: Side, method: str, found: Measured | None, paper: Mapping[str, Number]) -> list[tuple[str, ...]]:
    """A method beside the paper's numbers, and once more at the rays of the baselines."""
    said, name = paper.get(method), NAME_OF[method]
    digits = 2 if side.problem in MNIST else 3
    number = shown(said.hypervolume if said else None, digits), shown(said.uniformity if said else None)
    minutes = shown(MINUTES.get(side.problem, {}).get(method) if said else None, 1)
    if found is None:
        return [(name, "", "", "", "missing", number[0], "", number[1], "", "", minutes, "")]
    tests = [result.fronts["test"] for result in found.results]
    rows: list[tuple[str, ...]] = [
        (
            name,
            str(len(tests)),
            found.rays,
            str(_points(tests)),
            spread([test["hypervolume"] for test in tests]),
            number[0],
            spread([test["uniformity"] for test in tests]),
            number[1],
            shown(found.times.get("training"), 1),
            shown(found.times.get("one_by_one"), 1),
            minutes,
            f"{found.results[0].parameters:,}",
        )
    ]
    if found.same:
        same = TABLE_6[side.problem][method] if said else None
        volume, uniform = (spread([front[key] for front in found.same]) for key in ("hypervolume", "uniformity"))
        counts = str(len(found.same)), str(len(found.same[0]["rays"])), str(_points(found.same))
        said = (shown(same.hypervolume), shown(same.uniformity)) if same else ("-", "-")
        rows.append((f"{name}, same rays", *counts, volume, said[0], uniform, said[1], *("" for _ in COLUMNS[8:])))
    return rows


def claims(side: Side, methods: Sequence[Measured]) -> list[Claim]:
    """Whether hypernetworks are above the best baseline, and faster than separate models one by one. CPMTL has many
    points and no rays: it is compared with all points of a hypernetwork."""
    baselines = [each for each in methods if each.method not in (*PHN, "cpmtl")]
    expanded = [each for each in methods if each.method == "cpmtl"]
    found = []
    for ours in methods:
        if ours.method not in PHN or not baselines or not ours.same:
            continue
        best = max(baselines, key=lambda each: fmean(each.volumes))
        text = f"{side.title}: {NAME_OF[ours.method]} above every baseline in hypervolume on the same rays"
        found.append(above(text, ours.volumes, best.volumes, best.name, kind=ABOVE))
        if expanded:
            every = [result.fronts["test"]["hypervolume"] for result in ours.results]
            best = max(expanded, key=lambda each: fmean(each.volumes))
            text = f"{side.title}: {NAME_OF[ours.method]} at all its {len(ours.results[0].rays)} rays above CPMTL"
            points = len(best.results[0].fronts["test"]["losses"])
            found.append(above(text, every, best.volumes, f"{best.name} ({points} points)", kind=EXPANDED))
        solver = ours.method.removeprefix("phn-")
        alone = next((each.times.get("one_by_one") for each in methods if each.method == solver), None)
        if alone and (seconds := ours.times.get("training")):
            what = f"{NAME_OF[ours.method]} takes less time than {NAME_OF[solver]} with one model per ray, one by one"
            numbers = f"{seconds:,.1f} s against {alone:,.1f} s"
            found.append(Claim(f"{side.title}: {what}", seconds < alone, numbers, kind=FASTER))
    return found


def better_rates(workshop: Workshop, side: Side, methods: Mapping[str, Measured]) -> list[Measured]:
    """Methods with the better learning rate of two, by the validation hypervolume of the seeds that both have; with the
    other one, where that does not say which is better. Hypernetworks only if it is not the one they have anyway."""
    found = []
    for name in side.rates:
        for method in (each for each in workshop.study(name).methods if each in methods):
            first, second = methods[method], workshop.results(name, [method])
            both = {result.seed for result in first.results} & {result.seed for result in second}
            if not both:
                continue
            volumes = [_mean([r for r in group if r.seed in both], "val") for group in (first.results, second)]
            rate = "another rate" if volumes[0] == volumes[1] else "better of two rates"
            if method not in PHN:
                found.append(Measured(method, first.results if volumes[0] > volumes[1] else second, [], {}, rate))
            elif volumes[1] > volumes[0]:
                same = same_rays(workshop, name, second, side.few(workshop))
                found.append(Measured(method, second, same, first.times, rate))
    return found


def _tuned_row(method: Measured) -> tuple[str, ...]:
    tests = [result.fronts["test"] for result in method.results]
    counts = str(len(tests)), method.rays, str(_points(tests))
    volume, uniform = (spread([test[key] for test in tests]) for key in ("hypervolume", "uniformity"))
    size = f"{method.results[0].parameters:,}"
    return method.name, *counts, volume, "-", uniform, "-", "-", "-", "-", size


def _mean(results: Sequence[Result], split: str) -> float:
    return fmean(result.fronts[split]["hypervolume"] for result in results)


def _document(method: Measured) -> dict[str, Any]:
    return {
        "seeds": [result.seed for result in method.results],
        "hypervolume": [result.fronts["test"]["hypervolume"] for result in method.results],
        "uniformity": [result.fronts["test"]["uniformity"] for result in method.results],
        "seconds": {key: value for key, value in method.times.items() if key != "environment"},
        "same_rays": [{key: front[key] for key in ("hypervolume", "uniformity")} for front in method.same],
    }


def at_same_rays(workshop: Workshop, sides: Sequence[Side]) -> Finding:
    """Table 6: hypernetworks at the rays of the baselines, all problems in one table."""
    columns = ("problem", "method", "rays", "HV", "paper", "uniformity", "paper", "HV at all rays")
    finding, rows = Finding(), []
    for side in sides:
        few = side.few(workshop)
        results = workshop.results(side.phn)
        for method in workshop.study(side.phn).methods:
            group = [result for result in results if result.method == method]
            fronts, said = same_rays(workshop, side.phn, group, few), TABLE_6[side.problem][method]
            finding.numbers.setdefault(side.title, {})[method] = [front["hypervolume"] for front in fronts]
            finding.environments.extend(dict(result.environment) for result in group)
            finding.notes.extend(ignored_rays(side.title, group) if group else [])
            finding.missing.extend(
                missing_seeds(f"{side.title}: {method}", len(fronts), workshop.study(side.phn).seeds)
            )
            rows.append(
                (
                    side.title,
                    NAME_OF[method],
                    str(few),
                    spread([front["hypervolume"] for front in fronts]) if fronts else "missing",
                    shown(said.hypervolume),
                    spread([front["uniformity"] for front in fronts]),
                    shown(said.uniformity),
                    spread([result.fronts["test"]["hypervolume"] for result in group]),
                )
            )
    finding.tables.append(Table("Hypernetworks at the rays of the baselines", columns, rows))
    return finding
