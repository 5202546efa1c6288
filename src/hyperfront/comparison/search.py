"""The space that `tune` searches: ranges and lists of settings, their checks, and how values are drawn from them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from typing import Any

import numpy as np

from hyperfront.comparison.method import Method
from hyperfront.comparison.methods import find_method
from hyperfront.comparison.protocol import Protocol
from hyperfront.comparison.pruning import load_optuna
from hyperfront.errors import HyperfrontError, ProblemError, unknown_name
from hyperfront.problem import Problem
from hyperfront.problem.recipe import Recipe

Space = Mapping[str, Sequence[Any]]
"""Settings by name: a tuple (low, high), searched on a logarithmic scale, or a list of values."""
LEARNING_RATE: Space = {"lr": (1e-4, 1e-2)}
TRIALS = 20
"""The number of trials of a search that is not a grid."""
_SETTINGS = {item.name for item in fields(Recipe)}


def check_search(
    problem: Problem, method: str, protocol: Protocol, *, space: Space, trials: int | None, seed: int
) -> int:
    """The number of trials of a search, or an error for a search that cannot be run."""
    known = find_method(method)
    if not known.tunable:
        raise HyperfrontError(
            f"{method} has no settings to tune",
            expected="phn-SOLVER or SOLVER, such as phn-epo or ls",
            fix=f"tune {known.starts_from}, whose models {method} begins with" if known.starts_from else None,
        )
    if not 0 <= seed < 2**32:
        raise HyperfrontError("the seed is out of range", got=seed, expected="0 to 2**32 - 1")
    for name in space:
        _check_name(known, name)
    for name, values in space.items():
        _check_values(problem, known, protocol, name, values, space)
    protocol.check(method, problem)
    if problem.reference is None:
        raise ProblemError("tuning measures hypervolumes, which need a reference point")
    if _is_grid(space):
        whole = math.prod(map(len, space.values()))
        trials = whole if trials is None else min(trials, whole)
    trials = TRIALS if trials is None else trials
    if trials < 1:
        raise HyperfrontError("a search needs trials", got=f"{trials} trials", expected="one at least")
    return trials


def _check_name(method: Method, name: str) -> None:
    """Raise an error for a setting that the method does not have."""
    known = sorted(method.tunable)
    if name in _SETTINGS - method.tunable:
        raise HyperfrontError(
            f"{name} does not affect {method.name}, so it cannot be searched", expected=", ".join(known)
        )
    if name not in _SETTINGS and not method.hypernetwork:
        raise unknown_name(f"setting of {method.name}", name, known)


def _check_values(
    problem: Problem, method: Method, protocol: Protocol, name: str, values: Sequence[Any], space: Space
) -> None:
    """Raise an error for values that the setting cannot have."""
    if isinstance(getattr(protocol.recipe, name, None), int | float) and any(isinstance(each, str) for each in values):
        raise HyperfrontError(f"{name} is a number", got=", ".join(map(str, values)), expected="numbers")
    if any(values.count(each) > 1 for each in values):
        raise HyperfrontError("a value is listed twice", got=f"{name} = {', '.join(map(str, values))}")
    for each in values:
        replace(protocol, tuned={method.name: {name: each}}).check(method.name, problem)
        if name not in _SETTINGS:  # an option of the hypernetwork, tried with the first value of the other options
            others = {other: first for other, (first, *_) in space.items() if other not in _SETTINGS}
            problem.model(**{**protocol.recipe.model, **others, name: each})


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
    """The sampler of optuna: the whole grid if there are only lists, else a tree of Parzen estimators."""
    samplers = load_optuna().samplers
    if _is_grid(space):
        return samplers.GridSampler(dict(space), seed=seed)

    class ByNumber(samplers.BaseSampler):
        """Random numbers come from ``(seed, number of the trial)``, so that a continued study, and machines that begin
        at the same time, draw other settings."""

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
