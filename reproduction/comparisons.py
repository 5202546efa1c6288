"""Tables 1 to 4 and 6: hypernetworks and baselines on the same data, ours beside the paper's."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from statistics import fmean
from typing import Any

from hyperfront.comparison.methods import EVOLUTIONARY
from hyperfront.comparison.result import different
from hyperfront.comparison.table import spread
from reproduction.drawing import NAME_OF
from reproduction.item_result import Claim, ItemResult, Table, above, by_method, fronts_of, quality, shown
from reproduction.measurements import kept_points, population, same_rays
from reproduction.paper import MINUTES, TABLES, Number, Numbers
from reproduction.store import Store
from reproduction.studies import MNIST, PHN, SEPARATE
from reproduction.tables import Comparison, Measured, better_rates, measured

Row = tuple[str, ...]
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


def compared(store: Store, comparisons: Sequence[Comparison], paper: Numbers) -> ItemResult:
    """Make a table for each problem, claims about it, and a table of the points that validation data keep."""
    item, kept = ItemResult(notes=[TIMES]), []
    for each in comparisons:
        methods = {method.method: method for method in measured(store, each)}
        tuned = {method.method: method for method in better_rates(store, each, methods)}
        rows = []
        for name, method in methods.items():
            rows += _rows(each, method, paper[each.problem].get(name) if each.as_paper else None)
            if name in tuned:
                other = tuned[name]
                rows.append(_row(other.name, other.fronts, _rays(other), None, ("-", "-", "-", _parameters(other))))
        item.tables.append(Table(each.title, COLUMNS, rows))
        chosen = [method for name, method in methods.items() if name not in PHN or name not in tuned]
        item.claims += claims(each, [*chosen, *tuned.values()])
        named = methods | {method.name: method for method in tuned.values()}
        item.numbers[each.title] = {name: _document(method) for name, method in named.items()}
        kept += [row for method in named.values() for row in _kept(store, each, method)]
    if kept:
        title = "Points of methods with more points than rays: those that no other dominates on validation data"
        item.tables.append(Table(title, ("problem", "method", "points", "HV"), kept))
    return item


def _rows(comparison: Comparison, method: Measured, said: Number | None) -> Iterator[Row]:
    """Rows of a method beside the paper's numbers: at its own rays, and at the rays of the baselines."""
    name, problem = NAME_OF[method.method], comparison.problem
    minutes = MINUTES.get(problem, {}).get(method.method) if said else None
    seconds = (shown(method.times.get(key), 1) for key in ("training", "one_by_one"))
    rest = *seconds, shown(minutes, 1), _parameters(method)
    yield _row(name, method.fronts, _rays(method), said, rest, 2 if problem in MNIST else 3)
    if method.same:
        few = TABLES[6][problem][method.method] if said else None
        yield _row(f"{name}, same rays", method.same, str(len(method.same[0]["rays"])), few, ("", "", "", ""))


def _row(
    name: str, fronts: Sequence[Mapping[str, Any]], rays: str, said: Number | None, rest: Row, digits: int = 3
) -> Row:
    """Hypervolume and uniformity beside the paper's, and the ``rest``: times and parameters."""
    volume, uniform = quality(fronts)
    theirs = (shown(said.hypervolume, digits), shown(said.uniformity)) if said else ("-", "-")
    points = str(min(map(different, fronts)))
    return name, str(len(fronts)), rays, points, volume, theirs[0], uniform, theirs[1], *rest


def _parameters(method: Measured) -> str:
    return f"{method.results[0].parameters:,}"


def _rays(method: Measured) -> str:
    return str(len(method.results[0].rays) or "-")


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


def _document(method: Measured) -> dict[str, Any]:
    return {
        "seeds": [result.seed for result in method.results],
        "hypervolume": [front["hypervolume"] for front in method.fronts],
        "uniformity": [front["uniformity"] for front in method.fronts],
        "seconds": dict(method.times),
        "same_rays": [{key: front[key] for key in ("hypervolume", "uniformity")} for front in method.same],
    }


def at_same_rays(store: Store, comparisons: Sequence[Comparison]) -> ItemResult:
    """Table 6: hypernetworks at the rays of the baselines, all problems in one table."""
    columns = ("problem", "method", "rays", "HV", "paper", "uniformity", "paper", "HV at all rays")
    item, rows = ItemResult(), []
    for each in comparisons:
        few = each.few(store)
        for method, group in by_method(store.results(each.phn)).items():
            fronts, said = same_rays(store, each.phn, group, few), TABLES[6][each.problem][method]
            item.numbers.setdefault(each.title, {})[method] = [front["hypervolume"] for front in fronts]
            volume, uniform = quality(fronts)
            theirs, every = (shown(said.hypervolume), shown(said.uniformity)), quality(fronts_of(group))[0]
            rows.append((each.title, NAME_OF[method], str(few), volume, theirs[0], uniform, theirs[1], every))
    item.tables.append(Table("Hypernetworks at the rays of the baselines", columns, rows))
    return item
