"""The defaults of ``fit``: the general ones, those of a problem, and the solver that suits its losses."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hyperfront.preferences import Dirichlet
from hyperfront.problem import Gap, Problem
from hyperfront.solvers import EPO, LS, Solver

SETTINGS = ("epochs", "rays_per_step", "batch_size", "lr", "schedule", "warmup", "validate_every")
"""The settings whose defaults a problem may state."""
DEFAULTS: Mapping[str, Any] = {
    "solver": EPO(),
    "preferences": Dirichlet(),
    "epochs": 30,
    "rays_per_step": 1,
    "batch_size": 256,
    "lr": 1e-3,
    "schedule": "cosine",
    "warmup": 0,
    "validate_every": 1,
    "validation_rays": 25,
    "align": False,
}


def resolved(problem: Problem | None, **given: Any) -> dict[str, Any]:
    """Replace arguments of :func:`fit` that are None by the problem's defaults, or else by the general ones."""
    own = dict(problem.training()) if problem and problem.training and None in given.values() else {}
    if problem is not None:
        own.setdefault("solver", usual_solver(problem))
    return {name: own.get(name, DEFAULTS[name]) if value is None else value for name, value in given.items()}


def usual_solver(problem: Problem) -> Solver:
    """Choose LS where a loss is a gap between groups, and EPO otherwise: a gap may be zero on the whole front, where no
    ray has the equal products ``r_j l_j`` that EPO asks for."""
    gaps = (getattr(measure, "of", measure) for measure in problem.measures.values())
    return LS() if any(isinstance(measure, Gap) for measure in gaps) else EPO()
