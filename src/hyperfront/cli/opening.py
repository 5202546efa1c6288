"""What commands do with a run: load its model, and build its problem."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from hyperfront.errors import CheckpointError, HyperfrontError
from hyperfront.model import ParetoModel
from hyperfront.problem import Problem
from hyperfront.runs import import_factory, load, recorded_problem


def open_model(run: Path, target: str | None, which: Literal["best", "last"] | None) -> ParetoModel:
    """The model of a run, or an error in the words of the command line."""
    try:
        return load(run, target, which=which)
    except CheckpointError as error:
        if "no code" not in error.what:
            raise
        raise HyperfrontError(
            error.what, got=error.got, fix="--target package.module:factory --problem package.module:factory"
        ) from None


def open_problem(model: ParetoModel, problem: str | None, data_dir: Path | None) -> Problem:
    """The problem that the model was trained on, or the one that the user names."""
    if problem is not None:
        built = import_factory(problem)
    elif "problem" in model.record:
        built = recorded_problem(model.record, most=model.target.n, data_dir=data_dir)
    else:
        raise HyperfrontError("the run is of no built-in problem", fix="--problem package.module:factory")
    if not isinstance(built, Problem):
        raise HyperfrontError("the factory made no problem", got=type(built).__name__, expected="hyperfront.Problem")
    return built
