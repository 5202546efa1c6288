"""Separate models, one for each ray, as one model: their weights are the rows of a table."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from hyperfront.errors import ProblemError
from hyperfront.front import evaluate
from hyperfront.model import ParetoModel
from hyperfront.preferences import convert
from hyperfront.problem import Problem
from hyperfront.problem.recipe import Recipe
from hyperfront.solvers import Solver
from hyperfront.training.runs import Run
from hyperfront.training.validation import calibrate


def asked(rays: Tensor, solver: Solver) -> Tensor:
    """Rays of the convention ``inverse``, converted to the convention of the solver."""
    return convert(rays, "inverse", "direction") if solver.convention == "direction" else rays


def separate_models(problem: Problem, rays: Tensor, theta: Tensor) -> ParetoModel:
    """Make a model with the weights ``theta [R, n]`` for ``rays [R, m]``."""
    model = problem.model(hypernet="separate", rays=rays)
    (table,) = model.hypernet.parameters()
    if theta.shape != table.shape:
        raise ProblemError("the weights do not fit", got=list(theta.shape), expected=f"{list(table.shape)}, rays first")
    with torch.no_grad():
        table.copy_(theta)
    return model


def as_run(
    problem: Problem,
    theta: Tensor,
    rays: Tensor,
    recipe: Recipe,
    history: list[dict[str, Any]],
    record: dict[str, Any] | None = None,
) -> Run:
    """Make a run of models ``theta [R, n]`` that were trained separately, as :func:`hyperfront.fit` returns it."""
    model = separate_models(problem, rays, theta).to(theta.device)
    model.record = dict(problem.identity or {}) if record is None else dict(record)
    calibrate(model, problem, recipe.batch_size)
    front = evaluate(model.eval(), problem.val, rays, batch_size=recipe.batch_size)
    return Run(model=model, front=front, history=history, folder=None)
