"""Everything that is timed, as a function that trains for one epoch; and the timing.

In the package's engine an epoch is what ``fit`` does between two validations: draw rays and batches, take the steps,
read the losses back.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

import hyperfront as hf
from hyperfront.preferences import Dirichlet
from hyperfront.problem import Problem
from hyperfront.solvers import Solver
from hyperfront.training.engines import make_engine
from hyperfront.training.epochs import Epochs
from hyperfront.training.settings import Settings
from hyperfront.training.state import TrainingState
from stopwatch.cases import Case
from stopwatch.device import seconds
from stopwatch.reference import ReferenceStep

Epoch = Callable[[], int]
"""Trains for an epoch and returns how many steps it had."""


class Timing(NamedTuple):
    """Microseconds a step, of every repetition."""

    name: str
    times: list[float]

    @property
    def median(self) -> float:
        return statistics.median(self.times)

    @property
    def quartiles(self) -> tuple[float, float]:
        low, _, high = statistics.quantiles(self.times, n=4, method="inclusive")
        return low, high


def take_turns(epochs: Mapping[str, Epoch], *, turns: int, device: torch.device) -> list[Timing]:
    """One epoch of each in turn, so that all share what else the machine does; the first turn does not count."""
    timings = [Timing(name, []) for name in epochs]
    for turn in range(turns + 1):
        for timing, epoch in zip(timings, epochs.values()):
            start = seconds(device)
            steps = epoch()
            if turn:
                timing.times.append(1e6 * (seconds(device) - start) / steps)
    return timings


class OneModel(nn.Module):
    """A hypernetwork that gives every ray the same weights: what is left of a step when there is none."""

    def __init__(self, start: Tensor):
        super().__init__()
        self.theta = nn.Parameter(start[None].clone())

    def forward(self, rays: Tensor) -> Tensor:
        return self.theta.expand(len(rays), -1)


def front(
    model: hf.ParetoModel,
    problem: Problem,
    solver: Solver,
    *,
    alpha: float = 0.2,
    batch_size: int = 256,
    lr: float = 1e-3,
    rays_per_step: int = 1,
    share_batch: bool = False,
    engine: str = "auto",
) -> Epoch:
    """Epochs in an engine; ``"auto"`` is the default one for the model's device."""
    settings = Settings(
        epochs=1,
        rays_per_step=rays_per_step,
        batch_size=batch_size,
        share_batch=share_batch,
        optimizer=None,
        lr=lr,
        schedule="constant",
        warmup=0,
        seed=0,
        deterministic=False,
        precision=None,
        validate_every=1,
        patience=None,
    )
    optimizer = settings.make_optimizer(model.parameters())
    step = hf.Step(model, problem, solver, share_batch=share_batch)
    state = TrainingState(model, step, optimizer, settings.make_schedule(optimizer, 1))
    epochs = Epochs(state, problem, Dirichlet(alpha), settings)
    runs = make_engine(engine, epochs)

    def epoch() -> int:
        runs.run(state.position.epoch, lambda: True)
        state.position.begin(state.position.epoch + 1)
        return epochs.length

    return epoch


def front_of(case: Case, solver: Solver, device: torch.device, **options: Any) -> Epoch:
    return front(case.model(device), case.problem, solver, **options, **_settings(case))


def single_of(case: Case, device: torch.device) -> Epoch:
    """One model, in the engine of the others."""
    module = case.target()
    weights = nn.utils.parameters_to_vector(module.parameters()).detach()
    model = hf.wrap(module, case.problem.objectives, hypernet=OneModel(weights))
    return front(model.to(device), case.problem, hf.LS(), **_settings(case))


def _settings(case: Case) -> dict[str, Any]:
    return {"alpha": case.recipe.alpha, "batch_size": case.recipe.batch_size, "lr": case.recipe.lr}


def plain_of(case: Case, device: torch.device, *, compiled: bool = False) -> Epoch:
    """One model, in an ordinary loop over the same batches."""
    module = case.module().to(device)
    called: Any = torch.compile(module) if compiled else module
    optimizer = torch.optim.Adam(module.parameters(), lr=case.recipe.lr)

    def step(_: Tensor, batch: Any) -> None:
        optimizer.zero_grad()
        losses = case.losses(called, batch)
        torch.stack(list(losses)).mean().backward()
        optimizer.step()

    return _loop(case, step, device)


def reference_of(case: Case, device: torch.device, *, epo: bool) -> Epoch:
    module, hidden = case.module().to(device), case.recipe.model.get("hidden", 100)
    step = ReferenceStep(module, case.losses, m=case.problem.m, hidden=hidden, lr=case.recipe.lr, epo=epo)
    return _loop(case, step, device)


def _loop(case: Case, step: Callable[[Tensor, Any], None], device: torch.device) -> Epoch:
    """An ordinary loop over an epoch's batches, with a ray for each."""
    source, size, generator = case.problem.train.source, case.recipe.batch_size, torch.Generator().manual_seed(0)

    def epoch() -> int:
        steps = source.steps(size)
        rays = Dirichlet(case.recipe.alpha).sample(steps, case.problem.m, generator).float().to(device)
        for ray, batch in zip(rays, source.epoch(size, generator, device, 0)):
            step(ray, batch)
        return steps

    return epoch
