"""What a reader of a table has to know of some results, in words: notes below it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch

from hyperfront import indicators
from hyperfront.comparison.baselines import Budget
from hyperfront.comparison.result import Result
from hyperfront.comparison.table import spread
from hyperfront.zoo.toys import ENTRIES as TOYS
from reproduction.drawing import NAME_OF
from reproduction.studies import PHN


def spent(result: Result) -> list[str]:
    """The budget of an evolutionary algorithm."""
    if "budget" not in result.settings:
        return []
    budget = Budget(**result.settings["budget"])
    size = f"{budget.generations:,} generations of {budget.individuals(len(result.reference))} individuals"
    where = "" if result.problem in TOYS else f", on {budget.rows:,} training rows"
    return [f"{result.problem}, {NAME_OF[result.method]}: {size}{where}."]


def ignored_rays(title: str, results: Sequence[Result]) -> list[str]:
    """How many hypernetworks have one point for all rays, if some do."""
    count = sum(result.points == 1 for result in results)
    if not count or results[0].method not in PHN:
        return []
    runs = f"{count} of {len(results)} runs" if len(results) > 1 else "its run"
    return [f"{title}, {NAME_OF[results[0].method]}: in {runs} all rays have the same losses; it ignores them."]


def aligned(title: str, results: Sequence[Result]) -> list[str]:
    """That rays mean what validation data say, which models for one ray cannot be given."""
    ours = [NAME_OF[r.method] for r in results if r.family == "phn" and r.settings.get("align") and r.solver == "epo"]
    return [
        f"{title}: rays of {name} are aligned on validation data, those of separate models not." for name in ours[:1]
    ]


def begun_anew(title: str, separate: Sequence[Result], expanded: Sequence[Result]) -> list[str]:
    """What the models have that CPMTL begins with, where they are not those of LS but others trained like them."""
    known, begun = {result.seed: result.losses() for result in separate}, []
    for result in (result for result in expanded if result.seed in known):
        models, losses = known[result.seed], result.losses()
        first = losses[:: len(losses) // len(models)]
        if not torch.allclose(first, models, rtol=1e-3):
            begun.append(indicators.hypervolume(first, tuple(result.reference)))
    anew = f"{title}: CPMTL begins with models of LS that were trained anew; these alone have {spread(begun)}."
    return [anew] if begun else []


def kept(title: str, reference: Sequence[float], fronts: Sequence[Mapping[str, Any]]) -> str:
    """What those points have on the test data that one would keep by the validation data, of every seed."""
    volumes, counts = zip(*(kept_points(reference, front) for front in fronts))
    some = f"{min(counts)} to {max(counts)}" if len({*counts}) > 1 else f"{counts[0]}"
    return f"{title}: the {some} points that no other dominates on validation data have {spread(volumes)}."


def kept_points(reference: Sequence[float], front: Mapping[str, Any]) -> tuple[float, int]:
    """The hypervolume on the test data of points that no other dominates on validation data, and their number;
    ``front`` has the losses of all points on ``val`` and ``test``."""
    val, test = (torch.tensor(front[split], dtype=torch.float64) for split in ("val", "test"))
    points = test[indicators.nondominated(val)]
    return indicators.hypervolume(points, tuple(reference)), len(points)
