"""Tables 1 to 4 and 6: hypernetworks and baselines on the same data, ours beside the paper's."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any

from hyperfront.experiments.result import Result
from hyperfront.experiments.table import spread
from hyperfront.paper.finding import Claim, Finding, Table, mean, shown
from hyperfront.paper.looks import same_rays
from hyperfront.paper.numbers import MINUTES, TABLE_6, Number, Numbers
from hyperfront.paper.studies import PHN
from hyperfront.paper.workshop import Workshop

COLUMNS = (
    "method", "rays", "points", "HV", "paper", "uniformity", "paper", "seconds", "one by one", "paper, min",
    "parameters",
)  # fmt: skip


@dataclass(frozen=True)
class Side:
    """One problem of a table: its name, the study of hypernetworks, that of the baselines, and their rays."""

    title: str
    problem: str
    phn: str
    baselines: str | None
    rays: int


@dataclass(frozen=True)
class Measured:
    """A method on one problem: results of all seeds, and the same models at the rays of the baselines."""

    method: str
    results: list[Result]
    same: list[dict[str, Any]]

    @property
    def hypervolume(self) -> float:
        return fmean(result.fronts["test"]["hypervolume"] for result in self.results)

    @property
    def at_same_rays(self) -> float | None:
        return mean([front["hypervolume"] for front in self.same]) if self.same else None


def measured(workshop: Workshop, side: Side) -> list[Measured]:
    """Every method of a side that has results."""
    results = workshop.results(side.baselines) if side.baselines else []
    results = [*results, *workshop.results(side.phn)]
    found = []
    for method in dict.fromkeys(result.method for result in results):
        group, seen = [result for result in results if result.method == method], []
        if method.startswith("phn-"):
            looks = [same_rays(workshop, side.phn, method, result.seed, _few(workshop, side)) for result in group]
            seen = [look for look in looks if look]
        found.append(Measured(method, group, seen))
    return found


def _few(workshop: Workshop, side: Side) -> int:
    return workshop.study(side.baselines).rays if side.baselines else side.rays


def compared(workshop: Workshop, sides: Sequence[Side], paper: Numbers) -> Finding:
    """A table for each problem, and whether hypernetworks are above the baselines there."""
    finding = Finding()
    for side in sides:
        methods = measured(workshop, side)
        numbers, minutes = paper.get(side.problem, {}), MINUTES.get(side.problem, {})
        rows = [row for method in methods for row in _rows(method, numbers, side.problem, minutes)]
        absent = {
            *workshop.study(side.phn).methods,
            *(workshop.study(side.baselines).methods if side.baselines else ()),
        }
        absent -= {method.method for method in methods}
        finding.missing.extend(f"{side.title}: {method}" for method in sorted(absent))
        rows += [(name, *("missing" if c == "HV" else "" for c in COLUMNS[1:])) for name in sorted(absent)]
        finding.tables.append(Table(side.title, COLUMNS, rows))
        finding.claims.extend(_claims(side, methods))
        finding.numbers[side.title] = {m.method: _document(m) for m in methods}
        finding.environments.extend(dict(result.environment) for m in methods for result in m.results)
    return finding


def _rows(method: Measured, paper: dict[str, Number] | Any, problem: str, minutes: Any) -> list[tuple[str, ...]]:
    tests, said = [result.fronts["test"] for result in method.results], paper.get(method.method)
    digits = 2 if problem.startswith("multi") else 3
    seconds = mean([result.seconds["training"] for result in method.results])
    alone = mean([result.seconds.get("one_by_one") for result in method.results])
    rows: list[tuple[str, ...]] = [
        (
            method.method,
            str(len(method.results[0].rays) or "-"),
            str(len(tests[0]["losses"])),
            spread([test["hypervolume"] for test in tests]),
            shown(said.hypervolume if said else None, digits),
            spread([test["uniformity"] for test in tests]),
            shown(said.uniformity if said else None),
            shown(seconds, 1),
            shown(alone, 1),
            shown(minutes.get(method.method), 1),
            f"{method.results[0].parameters:,}",
        )
    ]
    if method.same:
        same = TABLE_6.get(problem, {}).get(method.method)
        rays = str(len(method.same[0]["rays"]))
        rows.append(
            (
                f"{method.method}, same rays",
                rays,
                rays,
                spread([front["hypervolume"] for front in method.same]),
                shown(same.hypervolume if same else None),
                spread([front["uniformity"] for front in method.same]),
                shown(same.uniformity if same else None),
                *("" for _ in COLUMNS[7:]),
            )
        )
    return rows


def _claims(side: Side, methods: Sequence[Measured]) -> list[Claim]:
    baselines = {m.method: m.hypervolume for m in methods if m.method not in PHN}
    claims = []
    for ours in methods:
        if ours.method not in PHN or not baselines or ours.at_same_rays is None:
            continue
        best = max(baselines, key=lambda name: baselines[name])
        claims.append(
            Claim(
                f"{side.title}: {ours.method} above every baseline in hypervolume on the same rays",
                ours.at_same_rays > baselines[best],
                f"{ours.at_same_rays:.3f} against {baselines[best]:.3f} of {best}",
            )
        )
        solver = ours.method.removeprefix("phn-")
        alone = mean([r.seconds.get("one_by_one") for m in methods if m.method == solver for r in m.results])
        if alone:
            seconds = fmean(result.seconds["training"] for result in ours.results)
            text = f"{side.title}: {ours.method} takes less time than one model per ray with {solver}, one by one"
            claims.append(Claim(text, seconds < alone, f"{seconds:,.1f} s against {alone:,.1f} s"))
    return claims


def _document(method: Measured) -> dict[str, Any]:
    return {
        "seeds": [result.seed for result in method.results],
        "hypervolume": [result.fronts["test"]["hypervolume"] for result in method.results],
        "uniformity": [result.fronts["test"]["uniformity"] for result in method.results],
        "seconds": [dict(result.seconds) for result in method.results],
        "same_rays": [{key: front[key] for key in ("hypervolume", "uniformity")} for front in method.same],
    }


def at_same_rays(workshop: Workshop, sides: Sequence[Side]) -> Finding:
    """Table 6: hypernetworks at the rays of the baselines, all problems in one table."""
    columns = ("problem", "method", "rays", "HV", "paper", "uniformity", "paper", "HV at all rays")
    finding, rows = Finding(), []
    for side in sides:
        few = _few(workshop, side)
        results = workshop.results(side.phn)
        for method in PHN:
            group = [result for result in results if result.method == method]
            looks = [same_rays(workshop, side.phn, method, result.seed, few) for result in group]
            fronts, said = [look for look in looks if look], TABLE_6[side.problem][method]
            finding.numbers.setdefault(side.title, {})[method] = [front["hypervolume"] for front in fronts]
            finding.environments.extend(dict(result.environment) for result in group)
            if not fronts:
                finding.missing.append(f"{side.title}: {method}")
            rows.append(
                (
                    side.title,
                    method,
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
