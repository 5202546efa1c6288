"""Pareto hypernetworks as methods of a comparison: one for each solver."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from hyperfront.comparison.baselines.per_ray import SEPARATE, solver_label
from hyperfront.comparison.baselines.separate import asked
from hyperfront.comparison.method import HYPERNETWORK, ComparisonJob, Method, Trained, name_of
from hyperfront.problem import Problem
from hyperfront.problem.recipe import Recipe
from hyperfront.solvers import Solver
from hyperfront.solvers.names import SOLVERS, make_solver
from hyperfront.training import fit
from hyperfront.training.runs import Run


def fit_hypernetwork(
    problem: Problem, rays: Tensor, solver: Solver, recipe: Recipe, *, seed: int, **options: Any
) -> Run:
    """Train a hypernetwork by a recipe; ``options`` of :func:`hyperfront.fit` override the recipe.

    It is validated at ``rays [R, m]``, in the convention ``inverse``."""
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        model = problem.model(**recipe.model)
    settings = recipe.hypernetwork(solver) | {"validation_rays": asked(rays, solver), "seed": seed} | options
    return fit(model, problem, **settings)


def _train(job: ComparisonJob) -> Trained:
    solver = make_solver(job.method.solver, dict(job.protocol.solver))
    options = job.fitting | {"out": job.folder, "resume": True}
    return fit_hypernetwork(job.problem, job.protocol.rays, solver, job.recipe, **options), {}


METHODS = tuple(
    Method(
        name=name_of(HYPERNETWORK, solver),
        label=f"PHN-{solver_label(solver)}",
        summary="a Pareto hypernetwork",
        family=HYPERNETWORK,
        train=_train,
        solver=solver,
        hypernetwork=True,
        tunable=SEPARATE | {"alpha", "rays_per_step"},
    )
    for solver in SOLVERS
)
