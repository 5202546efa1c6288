"""``hyperfront train --dry-run``: the settings of a run, its memory and its time, from a few steps."""

from __future__ import annotations

import dataclasses
import itertools
import sys
import time

import torch

from hyperfront.apps.cli.output import console
from hyperfront.model import ParetoModel
from hyperfront.preferences import Dirichlet
from hyperfront.problem import Problem
from hyperfront.problem.recipe import Recipe
from hyperfront.solvers import Solver
from hyperfront.training.fitting import settings_of
from hyperfront.training.step import Step

STEPS = 10
PATIENCE = 10.0
"""The most seconds of steps, approximately."""
ADAM = 2
"""Adam's averages of each parameter."""


def show(recipe: Recipe, model: ParetoModel, problem: Problem, solver: Solver) -> None:
    """Print what a run with these settings would take."""
    settings = settings_of(recipe.hypernetwork(solver))  # raises its error
    for key, value in dataclasses.asdict(recipe).items():
        console.print(f"  {key:<16}{value}")
    steps, each = problem.train.source.steps(recipe.batch_size), _seconds(recipe, model, problem, solver)
    size = sum(tensor.nbytes for tensor in model.state_dict().values())
    settings.make_optimizer(model.parameters())  # imports much of PyTorch
    most, where = peak(model.device)
    most += ADAM * sum(p.nbytes for p in model.parameters() if p.requires_grad)
    most += size if problem.has_data and "val" in problem.sources else 0  # the best weights so far
    console.print(f"  {'memory':<16}about {most / 2**20:.0f} MiB {where}, {size / 2**20:.0f} MiB of it weights")
    console.print(f"  {'time':<16}about {each * steps:.1f} s an epoch, {each * steps * recipe.epochs:.0f} s in all")


def peak(device: torch.device) -> tuple[int, str]:
    """Return the most bytes that were in use so far, and where: on the GPU, or in this process with PyTorch itself."""
    if device.type == "cuda":
        return torch.cuda.max_memory_allocated(device), "on the GPU"
    try:
        import resource  # not on Windows
    except ImportError:
        return 0, "besides PyTorch"
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return most * (1 if sys.platform == "darwin" else 1024), "with PyTorch"


def _seconds(recipe: Recipe, model: ParetoModel, problem: Problem, solver: Solver) -> float:
    """Measure the seconds of a step."""
    step, rays, generator = Step(model, problem, solver), Dirichlet(recipe.alpha), torch.Generator().manual_seed(0)
    source, times = problem.train.source, [time.perf_counter()]
    epochs = (source.epoch(recipe.batch_size, generator, model.device, 0) for _ in itertools.count())
    for batch in itertools.islice(itertools.chain.from_iterable(epochs), STEPS + 1):  # the first one warms up
        model.zero_grad()
        step(rays.sample(recipe.rays_per_step, problem.m, generator).to(next(model.parameters())), batch)
        times.append(time.perf_counter())
        if len(times) > 2 and times[-1] - times[0] > PATIENCE:
            break
    return (times[-1] - times[1]) / (len(times) - 2)
