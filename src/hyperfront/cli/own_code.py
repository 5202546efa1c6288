"""Problems and targets of the user's own, named on the command line."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from hyperfront.errors import CheckpointError, HyperfrontError
from hyperfront.problem import Problem
from hyperfront.runs import import_factory


def own_problem(name: str) -> Problem:
    """What ``--problem package.module:factory`` makes."""
    built = import_factory(name)
    if not isinstance(built, Problem):
        raise HyperfrontError("the factory made no problem", got=type(built).__name__, expected="hyperfront.Problem")
    return built


@contextmanager
def asks_for_options() -> Iterator[None]:
    """A checkpoint that needs the user's code says so in the words of the command line."""
    try:
        yield
    except CheckpointError as error:
        if "no code" not in error.what:
            raise
        options = "--target package.module:factory --problem package.module:factory"
        raise HyperfrontError(error.what, got=error.got, fix=options) from None
