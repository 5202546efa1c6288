"""Measurements of trained models beside their results: fronts at other rays, whole populations, and the front over
epochs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from hyperfront import indicators, preferences
from hyperfront.comparison.baselines import evolve, separate_models
from hyperfront.comparison.result import Result, rounded, summary_of
from hyperfront.front import Front, evaluate
from hyperfront.model import ParetoModel
from hyperfront.problem import Problem
from hyperfront.training.runs import RunFolder
from reproduction.store import Store


def same_rays(store: Store, study: str, results: Sequence[Result], count: int) -> list[dict[str, Any]]:
    """Test fronts of hypernetworks at the ``count`` rays of the baselines: some of the points of the result, where it
    has these rays, else a measurement of the model."""
    batch = store.study(study).recipe().batch_size

    def measure(model: ParetoModel, problem: Problem, run: RunFolder) -> dict[str, Any]:
        return front_document(evaluate(model, problem.test, preferences.rays(count, problem.m), batch_size=batch))

    return [
        at_rays(result, preferences.rays(count, len(result.objectives)))
        or store.measure(study, result, f"at-{count}-rays", measure)
        for result in results
    ]


def at_rays(result: Result, rays: Tensor) -> dict[str, Any] | None:
    """The test front of a result at some of its rays (in the convention ``inverse``), if it has them."""
    rays = rays.double()
    apart = torch.cdist(rays, result.inverse_rays())
    if apart.amin(1).max() > 1e-5:
        return None
    losses, reference = result.losses()[apart.argmin(1)], tuple(result.reference)
    return front_document(Front(result.objectives, rays, losses, reference=reference))


def evolution(store: Store, study: str, result: Result) -> list[dict[str, Any]]:
    """The validation front over epochs, from the log of the run."""

    def measure(model: ParetoModel, problem: Problem, run: RunFolder) -> list[dict[str, Any]]:
        return [
            {"epoch": record["epoch"], "losses": [rounded(row) for row in record["validation"]["losses"]]}
            | {key: record["validation"].get(key) for key in ("hypervolume", "uniformity")}
            for record in run.records()
            if "validation" in record
        ]

    return store.measure(study, result, "evolution", measure)


def population(store: Store, study: str, result: Result) -> dict[str, Any]:
    """Losses of a whole population on ``val`` and ``test``; its result has only the individuals nearest to rays."""
    method, name = result.method, f"{result.method}-{result.seed}"

    def measure() -> dict[str, Any]:
        protocol, problem = store.protocol(store.study(study)), store.problem(store.study(study))
        options = {"seed": result.seed, "device": protocol.device, "out": store.runs_of(study) / name}
        theta = evolve(method, problem, protocol.options_of(method), **options).theta
        rays = preferences.rays(len(theta), problem.m)
        model = separate_models(problem, rays, theta).to(protocol.device)
        fronts = {split: evaluate(model, problem.split(split), rays) for split in ("val", "test")}
        return {split: [rounded(row) for row in front.losses.tolist()] for split, front in fronts.items()}

    return store.part(f"studies/{study}/measurements/{name}-population", measure)


def kept_points(reference: Sequence[float], losses: Mapping[str, Any]) -> tuple[float, int]:
    """The test hypervolume of the points that no other point dominates on validation data, and their number;
    ``losses`` has all points on ``val`` and ``test``."""
    val, test = (torch.tensor(losses[split], dtype=torch.float64) for split in ("val", "test"))
    points = test[indicators.nondominated(val)]
    return indicators.hypervolume(points, tuple(reference)), len(points)


def front_document(front: Front) -> dict[str, Any]:
    """Rays, losses and scores of a front, its hypervolume and its uniformity."""
    return {"rays": [rounded(row) for row in front.rays.tolist()], **summary_of(front)}
