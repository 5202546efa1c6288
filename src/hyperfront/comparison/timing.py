"""The time that methods take on this machine, estimated from a few epochs, so that it can be measured on an otherwise
idle machine. Only steps count; validation and checkpoints do not."""

from __future__ import annotations

import tempfile
from dataclasses import replace
from pathlib import Path
from statistics import median

from torch import Tensor

from hyperfront.comparison.baselines import fit_stacked
from hyperfront.comparison.baselines.per_ray import with_references
from hyperfront.comparison.method import ComparisonJob
from hyperfront.comparison.methods import find_method
from hyperfront.comparison.protocol import Protocol
from hyperfront.problem import Problem
from hyperfront.solvers.names import make_solver
from hyperfront.training.runs import Run

EPOCHS = 5
"""The number of epochs that are timed. The median of all but the first counts, since programs are compiled there."""


def seconds_together(method: str, protocol: Protocol, problem: Problem) -> float | None:
    """The seconds of a hypernetwork, or of one model per ray with all models trained at once; work after the training
    of a model is done for one model after the other. None for other methods."""
    known = find_method(method)
    if known.hypernetwork:
        with tempfile.TemporaryDirectory() as folder:
            run, _ = known.train(
                ComparisonJob(known, _shortened(protocol, method), problem, seed=0, runs=Path(folder), callbacks=[])
            )
        return _of_all_epochs(run, protocol, method)
    if not known.one_per_ray:
        return None
    run = _stacked(method, protocol, problem, protocol.rays)
    return _of_all_epochs(run, protocol, method) + len(protocol.rays) * known.seconds_after(protocol, problem, run)


def seconds_apart(method: str, protocol: Protocol, problem: Problem) -> float | None:
    """The seconds of one model per ray with one model trained after the other, estimated from the first. None for
    other methods."""
    known = find_method(method)
    if not known.one_per_ray:
        return None
    run = _stacked(method, protocol, problem, protocol.rays[:1])
    return len(protocol.rays) * (_of_all_epochs(run, protocol, method) + known.seconds_after(protocol, problem, run))


def _of_all_epochs(run: Run, protocol: Protocol, method: str) -> float:
    timed = [record["seconds"] for record in run.history]
    return median(timed[1:] or timed) * protocol.recipe_of(method).epochs


def _stacked(method: str, protocol: Protocol, problem: Problem, rays: Tensor) -> Run:
    """The first epochs of models at some of the rays."""
    known = find_method(find_method(method).trained_as)
    solver, recipe = make_solver(known.solver), _shortened(protocol, known.name).recipe_of(known.name)
    solver = with_references(solver, protocol.rays)
    return fit_stacked(problem, rays, solver, recipe, callbacks=(), device=protocol.device, engine=protocol.engine)


def _shortened(protocol: Protocol, method: str) -> Protocol:
    few = min(EPOCHS, protocol.recipe_of(method).epochs)
    changes = {"epochs": few, "validate_every": few, "align": False}
    return replace(protocol, tuned={method: {**protocol.tuned.get(method, {}), **changes}})
