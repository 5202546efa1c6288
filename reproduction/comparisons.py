"""Tables 1 to 4 and 6: hypernetworks and baselines on the same data, ours beside the paper's."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from statistics import fmean
from typing import Any

from hyperfront.comparison.methods import EVOLUTIONARY
from hyperfront.comparison.result import different
from hyperfront.comparison.table import spread
from reproduction.drawing import NAME_OF
from reproduction.item_result import Claim, Finding, Table, above, missing_seeds, shown
from reproduction.measurements import population, same_rays
from reproduction.numbers import MINUTES, TABLE_6, Number, Numbers
from reproduction.remarks import aligned, begun_anew, ignored_rays, kept, spent
from reproduction.store import Workshop
from reproduction.studies import MNIST, PHN, SEPARATE
from reproduction.tables import Measured, Side, better_rates, measured, methods_of

COLUMNS = (
    "method", "seeds", "rays", "points", "HV", "paper", "uniformity", "paper", "seconds", "one by one", "paper, min",
    "parameters",
)  # fmt: skip
TIMES = (
    "Seconds are of training steps alone on the device, measured on their own from a few epochs; those of evolutionary "
    "algorithms are as spent, beside other runs."
)
ABOVE = "a hypernetwork is above every baseline in hypervolume on the same rays"
EACH = "on SARCOS, a hypernetwork is above one model per ray, by LS or by EPO, on the same rays"
EXPANDED = "a hypernetwork at all its rays is above CPMTL"
FASTER = "a hypernetwork takes less time than one model per ray, one by one"


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
            finding.notes.extend(aligned(side.title, each.results))
        if {"ls", "cpmtl"} <= methods.keys():
            finding.notes.extend(begun_anew(side.title, *(methods[name].results for name in ("ls", "cpmtl"))))
        for each in (*methods.values(), *tuned.values()):
            if (fronts := _all_points(workshop, side, each)) is None:
                continue
            there = [front for front in fronts if front]
            if len(there) == len(fronts):
                finding.notes.append(kept(f"{side.title}, {each.name}", each.results[0].reference, there))
            else:
                finding.missing.append(f"{side.title}: {each.method}, its population")
        named = methods | {each.name: each for each in tuned.values()}
        finding.numbers[side.title] = {name: _document(each) for name, each in named.items()}
        finding.environments.extend(dict(result.environment) for each in named.values() for result in each.results)
        finding.timed.extend(e for each in methods.values() if (e := each.times.get("environment")))
    return finding


def _all_points(workshop: Workshop, side: Side, each: Measured) -> list[dict[str, Any] | None] | None:
    """Losses of all points, where a method has more than the table counts at rays: a whole population; of CPMTL those
    of the table. None for other methods."""
    if each.method == "cpmtl":
        return [{split: front["losses"] for split, front in result.fronts.items()} for result in each.results]
    if each.method in EVOLUTIONARY:
        study = side.study_of(each.method)
        return [population(workshop, study, each.method, result.seed) for result in each.results]
    return None


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
        for solver in SEPARATE if side.each_apart else ():
            theirs = [each for each in baselines if each.method == solver]
            if not theirs:
                continue
            best = max(theirs, key=lambda each: fmean(each.volumes))
            text = f"{side.title}: {NAME_OF[ours.method]} above {NAME_OF[solver]} with one model per ray"
            found.append(above(f"{text}, on the same rays", ours.volumes, best.volumes, best.name, kind=EACH))
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


def _tuned_row(method: Measured) -> tuple[str, ...]:
    tests = [result.fronts["test"] for result in method.results]
    counts = str(len(tests)), method.rays, str(_points(tests))
    volume, uniform = (spread([test[key] for test in tests]) for key in ("hypervolume", "uniformity"))
    size = f"{method.results[0].parameters:,}"
    return method.name, *counts, volume, "-", uniform, "-", "-", "-", "-", size


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
