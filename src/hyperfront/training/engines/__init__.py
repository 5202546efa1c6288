"""Engines run the steps of an epoch. All engines take the same steps; they differ in speed.

=========== =====================================================================================================
``eager``   step by step in Python: any device, any source of data
``traced``  on a CPU: the operations of a gradient without Python's share, with the bits of ``eager``
``compiled`` compiled by ``torch.compile``: on a CPU the whole gradient, on a GPU the target and its losses
``graph``   the whole step as one CUDA graph: data held on the device, nothing read back inside an epoch
``auto``    on a GPU ``graph`` where it works, else ``eager``
=========== =====================================================================================================
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from functools import partial
from typing import Any, Protocol

import torch

from hyperfront.errors import HyperfrontError, unknown_name
from hyperfront.training.accumulation import AccumulatedStep
from hyperfront.training.engines.compiled import compiled
from hyperfront.training.engines.eager import Eager
from hyperfront.training.engines.graph import CudaGraphs, NotCapturable
from hyperfront.training.engines.traced import Traced
from hyperfront.training.engines.tracing import replayed
from hyperfront.training.epochs import Epochs
from hyperfront.training.shares import SharedStep

ENGINES = ("auto", "eager", "traced", "compiled", "graph")
BUILDS = {"traced": replayed, "compiled": compiled}


class Engine(Protocol):
    """Runs epochs."""

    name: str

    def run(self, epoch: int, keeps_going: Callable[[], bool]) -> None:
        """Train to the end of one epoch, or until ``keeps_going``, called after every step, returns False."""
        ...


def make_engine(name: str, epochs: Epochs) -> Engine:
    """Make the engine of that name; ``auto`` falls back to ``eager`` with a warning if a GPU cannot run the graph."""
    if name not in ENGINES:
        raise unknown_name("engine", name, ENGINES)
    settings = epochs.settings
    in_turn = settings.accumulate > 1 or settings.checkpoint_activations or settings.freeze_after is not None
    if in_turn or not epochs.team.alone:
        return _step_by_step(name, epochs)
    if epochs.model.device.type == "cpu" and name in BUILDS:
        return Traced(name, epochs, BUILDS[name])
    if name == "traced":
        raise HyperfrontError(
            "traced steps are for a CPU", got=f"a model on {epochs.model.device}", fix='engine="auto"'
        )
    if name == "compiled":
        step = epochs.state.step
        losses = partial(step.model.target.map, step.problem.each_loss)
        step.compiled = torch.compile(losses, dynamic=False)
    if name == "graph" and epochs.problem.lesson is not None:
        raise NotCapturable("a step with a teacher is not captured as a CUDA graph", fix='engine="auto"')
    if name == "graph" or (name == "auto" and epochs.model.device.type == "cuda" and epochs.problem.lesson is None):
        try:
            return CudaGraphs(epochs)
        except NotCapturable as error:
            if name == "graph":
                raise
            warnings.warn(f"steps run one by one, not as a CUDA graph: {error.got}", stacklevel=2)
    return Eager(epochs)


def _step_by_step(name: str, epochs: Epochs) -> Engine:
    """Make the engine of steps that save memory or freeze, or of several processes that wait for each other."""
    if name not in ("auto", "eager"):
        raise HyperfrontError(
            "steps of several processes, or with accumulate, checkpoint_activations or freeze_after, go one by one",
            got=f"engine = {name!r}",
            expected='"auto" or "eager"',
        )
    step: Any = epochs.state.step
    if epochs.settings.accumulate > 1:
        step = AccumulatedStep(step, epochs.settings.accumulate)
    return Eager(epochs, step if epochs.team.alone else SharedStep(step, epochs.state.step, epochs.team))
