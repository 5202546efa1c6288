"""What `tune` searches: ranges and lists of settings, which of them can be, and how values are drawn from them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from typing import Any

import numpy as np

from hyperfront.comparison.methods import Plan, check_method, family
from hyperfront.comparison.pruning import load_optuna
from hyperfront.errors import HyperfrontError, ProblemError, unknown_name
from hyperfront.problem import Problem
from hyperfront.problem.recipe import Recipe

Space = Mapping[str, Sequence[Any]]
"""Settings by name: a tuple (low, high), searched on a logarithmic scale, or a list of values."""
LEARNING_RATE: Space = {"lr": (1e-4, 1e-2)}
TRIALS = 20
"""Of a search that is not a grid."""
NOT_SEARCHED = {"align", "arguments", "evaluation_rays", "model", "separate", "validate_every"}
"""Fields of a recipe that say what is trained on what, or how it is looked at."""
OF_MANY_RAYS = {"alpha", "rays_per_step"}
"""Fields of a recipe that mean nothing to one model per ray."""


def check_search(problem: Problem, method: str, plan: Plan, *, space: Space, trials: int | None, seed: int) -> int:
    """An error for a search that cannot be, or how many trials it has."""
    kind = family(check_method(method))
    if kind not in ("phn", "per-ray"):
        raise HyperfrontError(
            f"{method} has no settings to tune",
            expected="phn-SOLVER or SOLVER, such as phn-epo or ls",
            fix="tune ls, with whose models cpmtl begins" if method == "cpmtl" else None,
        )
    if not 0 <= seed < 2**32:
        raise HyperfrontError("no such seed", got=seed, expected="0 to 2**32 - 1")
    settings = {item.name for item in fields(Recipe)}
    useless = NOT_SEARCHED | (OF_MANY_RAYS if kind == "per-ray" else set())
    known = sorted(settings - useless)
    for name in space:
        if name in useless:
            raise HyperfrontError(f"a search for {name} tells nothing about {method}", expected=", ".join(known))
        if name not in settings and kind == "per-ray":  # else an option of the hypernetwork
            raise unknown_name(f"setting of {method}", name, known)
    for name, values in space.items():
        if isinstance(getattr(plan.recipe, name, None), int | float) and any(isinstance(each, str) for each in values):
            raise HyperfrontError(f"{name} is a number", got=", ".join(map(str, values)), expected="numbers")
        if any(values.count(each) > 1 for each in values):
            raise HyperfrontError("a value is there twice", got=f"{name} = {', '.join(map(str, values))}")
        for each in values:
            replace(plan, tuned={method: {name: each}}).check(method)
            if name not in settings:  # with the first of the others; or its error
                others = {other: first for other, (first, *_) in space.items() if other not in settings}
                problem.model(**{**plan.recipe.model, **others, name: each})
    plan.check(method)
    if problem.reference is None:
        raise ProblemError("tuning measures hypervolumes, which need a reference point")
    if _is_grid(space):
        whole = math.prod(map(len, space.values()))
        trials = whole if trials is None else min(trials, whole)
    trials = TRIALS if trials is None else trials
    if trials < 1:
        raise HyperfrontError("nothing to try", got=f"{trials} trials", expected="one at least")
    return trials


def suggest(trial: Any, space: Space) -> dict[str, Any]:
    """The settings of a trial."""

    def one(name: str, values: Sequence[Any]) -> Any:
        if isinstance(values, tuple):
            whole = all(isinstance(value, int) for value in values)
            return (trial.suggest_int if whole else trial.suggest_float)(name, *values, log=True)
        return trial.suggest_categorical(name, values)

    return {name: one(name, values) for name, values in space.items()}


def _is_grid(space: Space) -> bool:
    return all(isinstance(values, list) for values in space.values())


def sampler(space: Space, seed: int) -> Any:
    """The whole grid where there are only lists, else a tree of Parzen estimators."""
    samplers = load_optuna().samplers
    if _is_grid(space):
        return samplers.GridSampler(dict(space), seed=seed)

    class ByNumber(samplers.BaseSampler):
        """Random numbers from ``(seed, number of the trial)``: a study that goes on, and machines that begin at the
        same time, draw other settings."""

        def before_trial(self, study: Any, trial: Any) -> None:
            number = np.random.SeedSequence([seed, trial.number]).generate_state(1)[0]
            self.own = samplers.TPESampler(seed=int(number))

        def infer_relative_search_space(self, *given: Any) -> Any:
            return self.own.infer_relative_search_space(*given)

        def sample_relative(self, *given: Any) -> Any:
            return self.own.sample_relative(*given)

        def sample_independent(self, *given: Any) -> Any:
            return self.own.sample_independent(*given)

    return ByNumber()
