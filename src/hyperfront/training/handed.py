"""Checks of the types of ``fit``'s arguments."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from torch.optim import Optimizer
from torch.optim.lr_scheduler import LRScheduler

from hyperfront.errors import HyperfrontError
from hyperfront.model import ParetoModel
from hyperfront.model.expected import expect_model, kind_of
from hyperfront.preferences import Dirichlet
from hyperfront.problem import Problem
from hyperfront.training.callbacks import Callback


def check_problem(problem: Any) -> None:
    """Raise an error for data or a name in the place of a problem."""
    if not isinstance(problem, Problem):
        raise HyperfrontError(
            "fit needs a problem, which knows the losses",
            got=kind_of(problem),
            fix="problem = hyperfront.supervised(train, val, losses={...})",
        )


def check_handed(model: Any, problem: Any, preferences: Any, callbacks: Any, average: Any) -> ParetoModel:
    """Return the model, or raise an error for a plain module, data, a class, a single callback or ``average`` without
    ``members``."""
    model = expect_model(model, "fit")
    check_problem(problem)
    if isinstance(preferences, type) or (preferences is not None and not hasattr(preferences, "sample")):
        raise HyperfrontError(
            "preferences= draws rays",
            got=kind_of(preferences),
            expected=f"an instance, such as hyperfront.{Dirichlet.__name__}(0.2)",
        )
    told = [] if callbacks is None else list(callbacks) if isinstance(callbacks, Sequence) else [callbacks]
    if wrong := [each for each in told if not isinstance(each, Callback)]:
        raise HyperfrontError(
            "an entry of callbacks= is no callback",
            got=kind_of(wrong[0]),
            expected="instances of hyperfront.training.Callback",
        )
    if told and not isinstance(callbacks, Sequence):
        raise HyperfrontError("callbacks are a list", got=kind_of(callbacks), fix="callbacks=[...]")
    if average is not None:
        raise HyperfrontError(
            "one model averages nothing", got=f"average={average!r}", fix="members=4, or leave it out"
        )
    return model


def check_makers(optimizer: Any, schedule: Any) -> None:
    """Raise an error for an optimizer or schedule that is made already: it would refer to other parameters."""
    if isinstance(optimizer, Optimizer) or not (optimizer is None or callable(optimizer)):
        raise HyperfrontError(
            "optimizer= makes an optimizer from the parameters that fit finds",
            got=kind_of(optimizer),
            expected="a function of the parameters",
            fix=f"optimizer=lambda parameters: torch.optim.{type(optimizer).__name__}(parameters, lr=...)"
            if isinstance(optimizer, Optimizer)
            else None,
        )
    if isinstance(schedule, LRScheduler) or not (isinstance(schedule, str) or callable(schedule)):
        raise HyperfrontError(
            "schedule= makes a schedule from the optimizer that fit has",
            got=kind_of(schedule),
            expected='"cosine", "constant" or a function of the optimizer',
        )


def check_made(made: Any, wanted: type, what: str) -> None:
    """Raise an error if the user's function returned an object of a wrong type."""
    if not isinstance(made, wanted):
        raise HyperfrontError(f"{what}= returned a wrong type", got=kind_of(made), expected=f"a {wanted.__name__}")
