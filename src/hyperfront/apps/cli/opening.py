"""The model and the problem of a run, for the commands."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Literal

from hyperfront.errors import CheckpointError, HyperfrontError
from hyperfront.model import ParetoModel
from hyperfront.problem import Problem
from hyperfront.training.loading import import_factory, load, recorded_problem

OPTIONS = "--target package.module:factory --problem package.module:factory"


@contextmanager
def asks_for_options(fix: str = OPTIONS) -> Iterator[None]:
    """Name options of the command line in the error of a checkpoint that needs the user's code."""
    try:
        yield
    except CheckpointError as error:
        if "no code" not in error.what:
            raise
        raise HyperfrontError(error.what, got=error.got, fix=fix) from None


def own_problem(name: str) -> Problem:
    """Make the problem that ``--problem package.module:factory`` names."""
    built = import_factory(name)
    if not isinstance(built, Problem):
        raise HyperfrontError("the factory made no problem", got=type(built).__name__, expected="hyperfront.Problem")
    return built


def open_model(
    run: Path, target: str | None, which: Literal["best", "last"] | None, problem: str | None = None
) -> ParetoModel:
    """The model of a run; the module is that of ``problem``, if no other is named."""
    make = own_problem(problem).make_target if target is None and problem is not None else None
    with asks_for_options():
        return load(run, make() if make else target, which=which)


def open_problem(model: ParetoModel, problem: str | None, data_dir: Path | None) -> Problem:
    """The problem that the model was trained on, or the one that the user names."""
    if problem is not None:
        return own_problem(problem)
    if "problem" not in model.record:
        raise HyperfrontError("this run was trained on your own problem", fix="--problem package.module:factory")
    return recorded_problem(model.record, most=model.target.n, data_dir=data_dir)
