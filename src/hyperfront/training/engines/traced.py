"""Traced steps, one after another: replayed (``engine="traced"``) or compiled (``engine="compiled"``)."""

from __future__ import annotations

from collections.abc import Callable

from hyperfront.training.adam import Adam
from hyperfront.training.engines.eager import Eager
from hyperfront.training.engines.tracing import Build, TracedStep, replayed
from hyperfront.training.epochs import Epochs


class Traced:
    """Runs traced steps, and compares the first one of every epoch with the step itself."""

    def __init__(self, name: str, epochs: Epochs, build: Build):
        self.name = name
        read_only = build is replayed and type(epochs.state.optimizer) is Adam
        self.step = TracedStep(epochs.state.step, build, read_only=read_only)
        self._eager = Eager(epochs, self.step)

    def run(self, epoch: int, keeps_going: Callable[[], bool]) -> None:
        """Train to the end of one epoch, or until ``keeps_going``, called after every step, returns False."""
        self.step.trusted = False
        self._eager.run(epoch, keeps_going)
