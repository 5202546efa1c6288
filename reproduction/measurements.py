"""What is measured on a trained model beside its result: the front at other rays, and how training got there."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from hyperfront import indicators
from hyperfront.comparison.baselines import evolve, separate_models
from hyperfront.comparison.result import Result, rounded
from hyperfront.front import Front, evaluate
from hyperfront.model import ParetoModel
from hyperfront.preferences import rays as laid_out
from hyperfront.problem import Problem
from hyperfront.training.runs import RunFolder
from reproduction.store import Workshop


def same_rays(workshop: Workshop, study: str, results: Sequence[Result], count: int) -> list[dict[str, Any]]:
    """The test fronts of hypernetworks at the ``count`` rays of the baselines, those that there are: their own points,
    where they were measured at these rays among others, else another look at the models."""
    batch = workshop.study(study).recipe().batch_size

    def measure(model: ParetoModel, problem: Problem, run: RunFolder) -> dict[str, Any]:
        return front_document(evaluate(model, problem.test, laid_out(count, problem.m), batch_size=batch))

    fronts = (
        at_rays(result, laid_out(count, len(result.objectives)))
        or workshop.look(study, result.method, result.seed, f"at-{count}-rays", measure)
        for result in results
    )
    return [front for front in fronts if front]


def at_rays(result: Result, rays: Tensor) -> dict[str, Any] | None:
    """The test front of a result at some of its rays (in the convention ``inverse``), if it has them."""
    rays = rays.double()
    apart = torch.cdist(rays, result.inverse_rays())
    if apart.amin(1).max() > 1e-5:
        return None
    losses = result.losses()[apart.argmin(1)]
    return {
        "hypervolume": indicators.hypervolume(losses, tuple(result.reference)),
        "uniformity": indicators.uniformity(losses, rays).mean().item(),
        "rays": rays.tolist(),
        "losses": losses.tolist(),
    }


def evolution(workshop: Workshop, study: str, method: str, seed: int) -> list[dict[str, Any]] | None:
    """The validation front over epochs, from the log of the run."""

    def measure(model: ParetoModel, problem: Problem, run: RunFolder) -> list[dict[str, Any]]:
        return [
            {"epoch": record["epoch"], "losses": [rounded(row) for row in record["validation"]["losses"]]}
            | {key: record["validation"].get(key) for key in ("hypervolume", "uniformity")}
            for record in run.records()
            if "validation" in record
        ]

    return workshop.look(study, method, seed, "evolution", measure)


def population(workshop: Workshop, study: str, method: str, seed: int) -> dict[str, Any] | None:
    """Losses of a whole population on ``val`` and ``test``, of which a result has the individuals nearest to rays."""

    def measure() -> dict[str, Any]:
        plan, problem = workshop.plan(workshop.study(study)), workshop.problem(workshop.study(study))
        folder = workshop.runs_of(study) / f"{method}-{seed}"
        theta = evolve(method, problem, plan.options_of(method), seed=seed, device=plan.device, out=folder).theta
        rays = laid_out(len(theta), problem.m)
        model = separate_models(problem, rays, theta).to(plan.device)
        fronts = {split: evaluate(model, problem.split(split), rays) for split in ("val", "test")}
        return {split: [rounded(row) for row in front.losses.tolist()] for split, front in fronts.items()}

    return workshop.part(f"studies/{study}/looks/{method}-{seed}-population", measure)


def front_document(front: Front) -> dict[str, Any]:
    """Hypervolume, uniformity, rays and losses of a front."""
    return {
        "hypervolume": indicators.hypervolume(front.losses, front.reference) if front.reference else None,
        "uniformity": front.uniformity(),
        "rays": [rounded(row) for row in front.rays.tolist()],
        "losses": [rounded(row) for row in front.losses.tolist()],
    }
