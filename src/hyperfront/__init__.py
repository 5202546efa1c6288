"""hyperfront: one model, every trade-off.

Two words carry everything:

- a **ray** is a preference: ``m`` non-negative numbers that sum to 1, one for each objective;
- a **front** is the losses reached at rays.

:func:`wrap` turns any ``nn.Module`` into a :class:`ParetoModel`, which has a network for every ray. :func:`supervised`
or :func:`analytic` states the objectives. :func:`fit` trains with a solver (:class:`EPO`, :class:`LS` and seven more,
or any scalarization through :func:`lift`; :func:`chain` adds normalization and the like) on rays drawn from preferences
(:class:`Dirichlet`). :func:`evaluate` measures a :class:`Front`, :meth:`Front.select` finds the ray of an operating
point, and ``model.at(ray)`` is a plain module; :mod:`hyperfront.export` makes files of it, or of the whole front.
:func:`explore` shows all of it on a page.

Shapes are one contract everywhere: ``m`` objectives, ``R`` rays, ``B`` rows, ``n`` generated weights; rays first.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hyperfront.errors import HyperfrontError
from hyperfront.front import Front, evaluate
from hyperfront.front.alignment import align
from hyperfront.model import ParetoModel, wrap
from hyperfront.preferences import Dirichlet, rays
from hyperfront.problem import Problem, analytic, supervised
from hyperfront.problem.described import Loss, Score
from hyperfront.problem.gaps import Gap
from hyperfront.problem.presentation import Decision, Presentation
from hyperfront.solvers import (
    COSMOS,
    EPO,
    LS,
    MGDA,
    PBI,
    PMTL,
    HVMax,
    SmoothTchebycheff,
    Tchebycheff,
    chain,
    lift,
)
from hyperfront.training import Callback, Progress, Step, backward, check, fit
from hyperfront.training.runs import Run, load

if TYPE_CHECKING:
    from hyperfront.apps.explorer import explore

__version__ = "0.1.0"

__all__ = [
    "COSMOS",
    "EPO",
    "LS",
    "MGDA",
    "PBI",
    "PMTL",
    "Callback",
    "Decision",
    "Dirichlet",
    "Front",
    "Gap",
    "HVMax",
    "HyperfrontError",
    "Loss",
    "ParetoModel",
    "Presentation",
    "Problem",
    "Progress",
    "Run",
    "Score",
    "SmoothTchebycheff",
    "Step",
    "Tchebycheff",
    "align",
    "analytic",
    "backward",
    "chain",
    "check",
    "evaluate",
    "explore",
    "fit",
    "lift",
    "load",
    "rays",
    "supervised",
    "wrap",
]


def __getattr__(name: str) -> Any:
    """The doors to applications, which are imported when they are first opened."""
    if name == "explore":
        from hyperfront.apps.explorer import explore

        return explore
    raise AttributeError(f"module 'hyperfront' has no attribute {name!r}")
