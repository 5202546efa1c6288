"""What is measured on a trained model beside its result: the front at other rays, and how training got there."""

from __future__ import annotations

from typing import Any

from hyperfront import metrics
from hyperfront.experiments.result import rounded
from hyperfront.front import Front, evaluate
from hyperfront.model import ParetoModel
from hyperfront.paper.workshop import Workshop
from hyperfront.preferences import rays as laid_out
from hyperfront.problem import Problem
from hyperfront.runs import RunFolder


def same_rays(workshop: Workshop, study: str, method: str, seed: int, rays: int) -> dict[str, Any] | None:
    """The test front of a hypernetwork at the rays of the baselines."""
    batch = workshop.study(study).recipe().batch_size

    def measure(model: ParetoModel, problem: Problem, run: RunFolder) -> dict[str, Any]:
        return front_document(evaluate(model, problem.test, laid_out(rays, problem.m), batch_size=batch))

    return workshop.look(study, method, seed, f"at-{rays}-rays", measure)


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


def front_document(front: Front) -> dict[str, Any]:
    """Hypervolume, uniformity, rays and losses of a front."""
    return {
        "hypervolume": metrics.hypervolume(front.losses, front.reference) if front.reference else None,
        "uniformity": front.uniformity(),
        "rays": [rounded(row) for row in front.rays.tolist()],
        "losses": [rounded(row) for row in front.losses.tolist()],
    }
