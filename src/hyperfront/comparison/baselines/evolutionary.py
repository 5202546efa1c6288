"""Evolutionary algorithms, NSGA-III and MOEA/D (pymoo), on the weights of the target: no gradients.

An individual is ``theta [n]``, its fitness the losses on a fixed sample of training rows; a whole generation is
evaluated at once. The box of the individuals is the problem's (``|z| <= pi/4``), or three times the largest initial
weight. Reference directions are a Das-Dennis grid, one for each individual. The algorithm is restarted from its
population every :data:`BLOCK` generations, with random numbers from ``(seed, block)``. Its state within a block is
stored too, so that a stopped run continues exactly where it stopped.
"""

from __future__ import annotations

import itertools
import math
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from hyperfront import indicators, preferences
from hyperfront.comparison.baselines.algorithms import ALGORITHMS, Memory
from hyperfront.comparison.baselines.limits import at_least
from hyperfront.comparison.baselines.separate import as_run, separate_models
from hyperfront.comparison.baselines.starts import starts
from hyperfront.comparison.method import ComparisonJob, Method, Trained
from hyperfront.errors import HyperfrontError, unknown_name
from hyperfront.front import evaluate
from hyperfront.model import ParetoModel
from hyperfront.preferences import das_dennis
from hyperfront.problem import Point, Problem
from hyperfront.storage import checkpoint, locks
from hyperfront.storage.provenance import describe, refuse_difference
from hyperfront.training.interrupt import stop_requests

FILE = "population.safetensors"
BLOCK = 1000
KEEP_EVERY = 30.0
"""Seconds."""


@dataclass(frozen=True)
class Budget:
    """The budget of an evolutionary algorithm: ``generations`` times at most ``population`` evaluations of ``rows``
    rows."""

    generations: int = 1000
    population: int = 100
    rows: int = 4096

    def __post_init__(self) -> None:
        at_least(self, generations=1, population=2, rows=1)

    def individuals(self, m: int) -> int:
        """The population for ``m`` objectives: one individual for each direction of a grid.

        >>> Budget(population=100).individuals(2), Budget(population=100).individuals(3)
        (100, 91)
        """
        return len(_directions(m, self.population))


@dataclass(frozen=True)
class Evolved:
    """The last population ``theta [P, n]``, and how long it took."""

    theta: Tensor
    seconds: float


def evolve(
    name: str,
    problem: Problem,
    budget: Budget = Budget(),  # noqa: B008 (frozen)
    *,
    seed: int = 0,
    device: str | torch.device = "cpu",
    out: Path | None = None,
    progress: Callable[[], Any] = lambda: None,
) -> Evolved:
    """Run ``"nsga3"`` or ``"moead"``; with ``out`` the population is stored there every half minute and on Ctrl-C, and
    a later call continues with it."""
    if name not in ALGORITHMS:
        raise unknown_name("evolutionary algorithm", name, ALGORITHMS)
    check_evolvable(problem)
    kept = _Kept.of(name, problem, budget, seed, out)
    theta = starts(problem, budget.individuals(problem.m), seed)
    known, limit = kept.load(theta, budget), _limit(problem, theta)
    theta, done, spent = known.theta, known.generations, known.seconds
    directions, fitness = (
        _directions(problem.m, len(theta)),
        _Fitness(problem, len(theta), budget.rows, torch.device(device)),
    )
    kind, algorithm = ALGORITHMS[name], None
    with stop_requests() as stop:
        before = written = time.perf_counter()
        while done < budget.generations:
            if algorithm is None or done % BLOCK == 0:
                numbers = [seed, done // BLOCK]
                algorithm = kind.begin(fitness, directions, theta, limit, generations=BLOCK, seed=numbers)
                if done % BLOCK:
                    kind.remember(algorithm, known.memory)
            algorithm.next()
            theta, done, now = torch.from_numpy(algorithm.pop.get("X")).to(theta), done + 1, time.perf_counter()
            spent, before = spent + now - before, now
            progress()
            if stop.made or done == budget.generations or now - written > KEEP_EVERY:
                kept.save(_Population(theta, done, spent, kind.memory(algorithm)))
                written = now
            if stop.made:
                raise stop.stopped()
    return Evolved(theta, spent)


@dataclass(frozen=True)
class _Population:
    """The state of an evolution."""

    theta: Tensor
    generations: int = 0
    seconds: float = 0.0
    memory: Memory = field(default_factory=lambda: ({}, {}))


@dataclass(frozen=True)
class _Kept:
    """The file of a population, if there is one, and the settings that the population must have."""

    file: Path | None
    settings: dict[str, Any]

    @classmethod
    def of(cls, name: str, problem: Problem, budget: Budget, seed: int, out: Path | None) -> _Kept:
        settings = {"method": name, "seed": seed, "population": budget.individuals(problem.m), "rows": budget.rows}
        return cls(None if out is None else Path(out) / FILE, settings | describe(problem.identity or {}))

    def load(self, start: Tensor, budget: Budget) -> _Population:
        """Load the population in the file, or make the first one."""
        if self.file is None or not self.file.exists():
            return _Population(start)
        arrays, document = checkpoint.read(self.file)
        what = "the folder holds a population made with other settings"
        refuse_difference(
            document.get("of", {}), self.settings, what=what, fix="use the same settings or another folder"
        )
        memory = arrays, document.get("random", {})
        found = _Population(arrays.pop("theta"), document["generations"], document["seconds"], memory)
        if found.generations > budget.generations:
            raise HyperfrontError(
                "the folder holds a population of more generations",
                got=f"{found.generations:,} generations in {self.file.parent}",
                expected=f"{budget.generations:,} at most",
                fix="use another folder",
            )
        if found.generations % BLOCK and found.generations < budget.generations and not memory[1]:
            raise HyperfrontError(
                "the folder holds a population of an earlier version, which cannot continue within a block",
                got=f"{found.generations:,} generations in {self.file.parent}",
                fix="use another folder",
            )
        return found

    def save(self, population: _Population) -> None:
        if self.file is not None:
            arrays, random = population.memory
            numbers = {"generations": population.generations, "seconds": population.seconds}
            document = {"of": self.settings, **numbers, "random": random}
            checkpoint.write(self.file, {"theta": population.theta, **arrays}, document)


def seconds_so_far(out: Path) -> float:
    """The seconds that earlier calls have spent in the folder."""
    file = out / FILE
    return checkpoint.read(file)[1]["seconds"] if file.exists() else 0.0


def along_rays(problem: Problem, theta: Tensor, rays: Tensor, *, device: str | torch.device = "cpu") -> Tensor:
    """For each of ``rays [R, m]``, find the nearest individual ``[R, n]`` on the validation data: the most uniform of
    the non-dominated ones."""
    model = separate_models(problem, preferences.rays(len(theta), problem.m), theta).to(device)
    losses = evaluate(model, problem.val, preferences.rays(len(theta), problem.m)).losses
    good = indicators.nondominated(losses).nonzero()[:, 0]
    return theta[good[indicators.uniformity(losses[good], rays[:, None]).argmax(-1)]]


def _directions(m: int, population: int) -> Tensor:
    """The largest Das-Dennis grid of at most ``population`` directions, or one direction for each objective."""
    fits = itertools.takewhile(lambda h: math.comb(h + m - 1, m - 1) <= population, itertools.count(1))
    return das_dennis(m, max(fits, default=1))


def _limit(problem: Problem, theta: Tensor) -> float:
    target = problem.make_target() if problem.make_target else None
    bounded = isinstance(target, Point) and target.low is not None
    return math.pi / 4 if bounded else 3 * theta.abs().max().item()


def check_evolvable(problem: Problem) -> None:
    """Raise an error for a target with BatchNorm, whose statistics the search would have to find too."""
    norms = problem.model(hypernet="separate", rays=preferences.rays(2, problem.m)).target.norms
    if norms:
        raise HyperfrontError(
            "evolutionary algorithms cannot train networks with BatchNorm, whose statistics they would have to search",
            got=f"{len(norms)} BatchNorm layers: {', '.join([*norms][:3])}, ...",
            fix="leave nsga3 and moead out",
        )


class _Fitness:
    """Computes losses ``[P, m]`` of weights ``[P, n]``, in float64 for problems without data."""

    def __init__(self, problem: Problem, population: int, rows: int, device: torch.device):
        self.problem, self.m = problem, problem.m
        rays = preferences.rays(population, problem.m)
        self.model: ParetoModel = problem.model(hypernet="separate", rays=rays).to(device).eval()
        self.model = self.model if problem.has_data else self.model.double()
        source = problem.train.source
        count = min(rows, getattr(source, "rows", rows))
        self.batch = next(source.epoch(count, torch.Generator().manual_seed(0), device, 0))

    @torch.no_grad()
    def __call__(self, weights: np.ndarray) -> np.ndarray:
        theta = torch.from_numpy(weights).to(next(self.model.hypernet.parameters()))
        rays = theta.new_full((len(theta), self.m), 1 / self.m)
        losses = self.model.target.map(self.problem.losses, theta, rays, self.batch, split=False)
        return losses.double().cpu().numpy()


def _train(job: ComparisonJob) -> Trained:
    protocol, problem, budget = job.protocol, job.problem, job.options
    with locks.alone_in(job.folder), job.bar(budget.generations, "generation") as bar:
        options: dict[str, Any] = {"seed": job.seed, "device": protocol.device, "out": job.folder, "progress": bar}
        found = evolve(job.method.name, problem, budget, **options)
    theta = along_rays(problem, found.theta, protocol.rays, device=protocol.device).to(protocol.device)
    return as_run(problem, theta, protocol.rays, job.recipe, [{"status": {}, "seconds": found.seconds}]), {}


METHODS = tuple(
    Method(
        name=name,
        label=algorithm.label,
        summary="an evolutionary algorithm",
        family="evolutionary",
        train=_train,
        population=True,
        options=Budget,
        check=lambda method, protocol, problem: check_evolvable(problem),
        spent=lambda job: seconds_so_far(job.folder),
    )
    for name, algorithm in ALGORITHMS.items()
)
