"""How long methods take on this machine as it is now: from a few epochs, so that it can be measured when nothing else
runs, whatever ran beside the training itself. Only steps count; validation and checkpoints do not."""

from __future__ import annotations

import tempfile
import time
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from statistics import median

from torch import Tensor

from hyperfront.comparison.baselines import fit_stacked
from hyperfront.comparison.baselines.per_ray import with_references
from hyperfront.comparison.methods import ONE_PER_RAY, Plan, family, hypernetwork, trained_as
from hyperfront.problem import Problem
from hyperfront.solvers.names import make_solver
from hyperfront.training.runs import Run

EPOCHS = 5
"""The median of those after the first counts: in the first one, programs are made for the others."""


def seconds_together(method: str, plan: Plan, problem: Problem) -> float | None:
    """Of a hypernetwork, or of one model per ray, all at once; CPMTL expands one after the other. None for other
    methods."""
    if family(method) == "phn":
        with tempfile.TemporaryDirectory() as folder:
            run, _ = hypernetwork(method, _shortened(plan, method), problem, 0, Path(folder), [])
        return _of_all_epochs(run, plan, method)
    if family(method) not in ONE_PER_RAY:
        return None
    run = _stacked(method, plan, problem, plan.rays)
    return _of_all_epochs(run, plan, method) + len(plan.rays) * _expansion(method, run, plan, problem)


def seconds_apart(method: str, plan: Plan, problem: Problem) -> float | None:
    """Of one model per ray, one after the other, with CPMTL's expansion of each: from the first. None for others."""
    if family(method) not in ONE_PER_RAY:
        return None
    run = _stacked(method, plan, problem, plan.rays[:1])
    return len(plan.rays) * (_of_all_epochs(run, plan, method) + _expansion(method, run, plan, problem))


def _of_all_epochs(run: Run, plan: Plan, method: str) -> float:
    timed = [record["seconds"] for record in run.history]
    return median(timed[1:] or timed) * plan.recipe_of(method).epochs


def _expansion(method: str, run: Run, plan: Plan, problem: Problem) -> float:
    """Of the first model, from two steps along each objective, where the method expands; the median counts, since
    programs are made in the first."""
    if method != "cpmtl":
        return 0.0
    theta, marks = run.model.hypernet(run.model.hypernet.knots)[0].detach(), [time.perf_counter()]
    for _ in replace(plan.expansion, steps=2).expand(run.model, problem, theta[None]):
        marks.append(time.perf_counter())
    return plan.expansion.steps * problem.m * median(after - before for before, after in pairwise(marks))


def _stacked(method: str, plan: Plan, problem: Problem, rays: Tensor) -> Run:
    """The first epochs of models at some of the rays; CPMTL begins with those of LS."""
    method = trained_as(method)
    solver, recipe = with_references(make_solver(method), plan.rays), _shortened(plan, method).recipe_of(method)
    return fit_stacked(problem, rays, solver, recipe, callbacks=(), device=plan.device, engine=plan.engine)


def _shortened(plan: Plan, method: str) -> Plan:
    few = min(EPOCHS, plan.recipe_of(method).epochs)
    changes = {"epochs": few, "validate_every": few, "align": False}
    return replace(plan, tuned={method: {**plan.tuned.get(method, {}), **changes}})
