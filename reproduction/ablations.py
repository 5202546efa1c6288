"""Ablations: the measured effect of departures from the paper, with its choice beside ours."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from hyperfront import indicators
from hyperfront.comparison.methods import METHODS
from hyperfront.comparison.result import Result
from hyperfront.comparison.table import spread
from reproduction.item_result import ItemResult, Row, Table, fronts_of, quality
from reproduction.measurements import kept_points, population, same_rays
from reproduction.store import Store


def ablations(store: Store, measured: Sequence[Mapping[str, Any]], images: str, few: str) -> ItemResult:
    """Methods with the paper's choice and with ours, everything else the same (but for the presets of SARCOS).

    ``measured`` names the study of each choice. The log base and the number of rays need no other study than
    ``images``, a hypernetwork with as many rays as the paper's, and ``few``, which has the rays of baselines.
    """
    rows = [row for each in measured for row in _rows(store, **each)]
    results = store.results(images, ["phn-epo"])
    rows += [*_bases(results), *_few_rays(store, images, results, store.study(few).rays)]
    columns = ("deviation", "problem", "choice", "rays", "seeds", "HV", "uniformity")
    return ItemResult([Table("What deviations do to the numbers (of PHN-EPO, or of the method named)", columns, rows)])


def _rows(
    store: Store, deviation: str, problem: str, choices: Mapping[str, str], methods: Sequence[str] = ()
) -> Iterator[Row]:
    """The results of each choice; PHN-EPO, which is the default method, is not named."""
    for method in methods or ("phn-epo",):
        known = METHODS[method]
        for name, study in choices.items():
            choice = f"{known.label}, {name}" if methods else name
            results = store.results(study, [method])
            about, count = (deviation, problem), str(len(results))
            yield *about, choice, str(len(results[0].rays) or "-"), count, *quality(fronts_of(results))
            if known.population:
                volumes = [kept_points(r.reference, population(store, study, r))[0] for r in results]
                yield *about, f"{choice}, all that validation keeps", "-", count, spread(volumes), "-"


def _bases(results: Sequence[Result]) -> Iterator[Row]:
    """The uniformity of the same fronts in two bases of the logarithm."""
    for name, base in (("natural", math.e), ("base 2", 2.0)):
        each = (indicators.uniformity(result.losses(), result.inverse_rays(), base=base) for result in results)
        counts = str(len(results[0].rays)), str(len(results))
        yield "log-base", results[0].problem, name, *counts, "-", spread([uniform.mean().item() for uniform in each])


def _few_rays(store: Store, study: str, results: Sequence[Result], few: int) -> Iterator[Row]:
    """The same hypernetworks at all their rays, and at those of the baselines."""
    for rays, fronts in ((len(results[0].rays), fronts_of(results)), (few, same_rays(store, study, results, few))):
        yield "rays", results[0].problem, f"{rays} rays", str(rays), str(len(fronts)), *quality(fronts)
