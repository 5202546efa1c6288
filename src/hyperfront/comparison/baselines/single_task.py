"""Single task: a model for each objective alone. Their losses estimate the ideal point, which bounds every front."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from hyperfront.comparison.baselines.per_ray import fit_stacked
from hyperfront.comparison.method import ComparisonJob, Method, Trained
from hyperfront.front import Front
from hyperfront.problem import Problem
from hyperfront.problem.recipe import Recipe
from hyperfront.solvers import LS
from hyperfront.training.runs import Run


def fit_single_tasks(problem: Problem, recipe: Recipe, *, seed: int = 0, **options: Any) -> Run:
    """Train ``m`` models at once, the j-th on objective ``j`` alone, and keep the weights with the best ideal point."""
    rays = torch.eye(problem.m, dtype=torch.float64)
    return fit_stacked(problem, rays, LS(), recipe, seed=seed, criterion=ideal_volume, **options)


def ideal_point(front: Front) -> Tensor:
    """The loss ``[m]`` of each model in its own objective."""
    return front.losses.diagonal()


def ideal_volume(front: Front) -> float:
    """The hypervolume of the ideal point, ``prod_j (reference_j - ideal_j)``."""
    if front.reference is None:
        return -float(ideal_point(front).sum())
    room = torch.tensor(front.reference, dtype=torch.float64) - ideal_point(front)
    return float(room.clamp_min(0).prod())


def _train(job: ComparisonJob) -> Trained:
    return fit_single_tasks(job.problem, job.recipe, out=job.folder, resume=True, **job.fitting), {}


METHOD = Method(
    name="single",
    label="single task",
    summary="one model per objective",
    family="single",
    train=_train,
    gives="ideal",
)
