"""Evolutionary algorithms, NSGA-III and MOEA/D (pymoo), on the weights of the target: no gradients.

An individual is ``theta [n]``, its fitness the losses on a fixed sample of training rows; a whole generation is
evaluated at once. The box that individuals live in is that of the problem (``|z| <= pi/4``), or three times the largest
initial weight. Reference directions are a Das-Dennis grid, one for each individual. The algorithm is started anew from
its population every :data:`BLOCK` generations, with random numbers from ``(seed, block)``. What it knows within a block
is kept too, so that a run that was stopped goes on exactly where it was.
"""

from __future__ import annotations

import itertools
import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from hyperfront import indicators
from hyperfront.comparison.baselines.limits import at_least
from hyperfront.comparison.baselines.per_ray import separate_models
from hyperfront.comparison.baselines.starts import starts
from hyperfront.errors import HyperfrontError, unknown_name
from hyperfront.front import evaluate
from hyperfront.model import ParetoModel
from hyperfront.preferences import das_dennis
from hyperfront.preferences import rays as laid_out
from hyperfront.problem import Point, Problem
from hyperfront.storage import checkpoint
from hyperfront.storage.provenance import describe, refuse_difference
from hyperfront.training.interrupt import ctrl_c

MEMORY = {"nsga3": ("ideal_point", "worst_point", "nadir_point", "extreme_points"), "moead": ("ideal",)}
"""What an algorithm remembers from one generation to the next, beside its population and its random numbers."""
ALGORITHMS = (*MEMORY,)
BLOCK = 1000
KEEP_EVERY = 30.0
"""Seconds."""


@dataclass(frozen=True)
class Budget:
    """What an evolutionary algorithm may spend: ``generations`` times at most ``population`` evaluations of ``rows``
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
    progress: Callable[[], Any] | None = None,
) -> Evolved:
    """Run ``"nsga3"`` or ``"moead"``; with ``out`` the population is kept there every half minute and on Ctrl-C, and a
    later call goes on with it."""
    if name not in ALGORITHMS:
        raise unknown_name("evolutionary algorithm", name, ALGORITHMS)
    check_evolvable(problem)
    file = None if out is None else Path(out) / "population.safetensors"
    theta, done, spent = starts(problem, budget.individuals(problem.m), seed), 0, 0.0
    within: tuple[dict[str, Tensor], dict[str, Any]] = {}, {}
    limit = _limit(problem, theta)
    kind = {
        "method": name,
        "seed": seed,
        "population": len(theta),
        "rows": budget.rows,
        **describe(problem.identity or {}),
    }
    if file is not None and file.exists():
        tensors, document = checkpoint.read(file)
        what = "the folder holds a population of something else"
        refuse_difference(document.get("of", {}), kind, what=what, fix="the same settings, or another folder")
        theta, done, spent = tensors.pop("theta"), document["generations"], document["seconds"]
        within = tensors, document.get("random", {})
        if done > budget.generations:
            raise HyperfrontError(
                "the folder holds a population that has had more",
                got=f"{done:,} generations in {out}",
                expected=f"{budget.generations:,} at most",
                fix="another folder",
            )
        if done % BLOCK and done < budget.generations and not within[1]:
            what = "the folder holds a population of an earlier version, which cannot go on within a block"
            raise HyperfrontError(what, got=f"{done:,} generations in {out}", fix="another folder")
    fitness = _Fitness(problem, len(theta), budget.rows, torch.device(device))
    algorithm: Any = None
    with ctrl_c() as stop:
        before = kept = time.perf_counter()
        while done < budget.generations:
            if algorithm is None or done % BLOCK == 0:
                algorithm = _begin(name, fitness, theta, limit, [seed, done // BLOCK])
                if done % BLOCK:
                    _remember(name, algorithm, *within)
            algorithm.next()
            theta, done, now = torch.from_numpy(algorithm.pop.get("X")).to(theta), done + 1, time.perf_counter()
            spent, before = spent + now - before, now
            if progress:
                progress()
            if file is not None and (stop.made or done == budget.generations or now - kept > KEEP_EVERY):
                memory, random = _memory(name, algorithm)
                document = {"of": kind, "generations": done, "seconds": spent, "random": random}
                checkpoint.write(file, {"theta": theta, **memory}, document)
                kept = now
            if stop.made:
                raise KeyboardInterrupt
    return Evolved(theta, spent)


def seconds_so_far(out: Path) -> float:
    """What earlier calls have spent there."""
    file = out / "population.safetensors"
    return checkpoint.read(file)[1]["seconds"] if file.exists() else 0.0


def along_rays(problem: Problem, theta: Tensor, rays: Tensor, *, device: str | torch.device = "cpu") -> Tensor:
    """For each of ``rays [R, m]`` the individual ``[R, n]`` that is nearest to it on the validation data: of those that
    no other dominates there, the most uniform."""
    model = separate_models(problem, laid_out(len(theta), problem.m), theta).to(device)
    losses = evaluate(model, problem.val, laid_out(len(theta), problem.m)).losses
    good = indicators.nondominated(losses).nonzero()[:, 0]
    return theta[good[indicators.uniformity(losses[good], rays[:, None]).argmax(-1)]]


def _directions(m: int, population: int) -> Tensor:
    """The largest Das-Dennis grid of at most so many directions, or one for each objective."""
    fits = itertools.takewhile(lambda h: math.comb(h + m - 1, m - 1) <= population, itertools.count(1))
    return das_dennis(m, max(fits, default=1))


def _limit(problem: Problem, theta: Tensor) -> float:
    target = problem.make_target() if problem.make_target else None
    bounded = isinstance(target, Point) and target.low is not None
    return math.pi / 4 if bounded else 3 * theta.abs().max().item()


def check_evolvable(problem: Problem) -> None:
    """An error for a target that has more to find than its weights."""
    norms = problem.model(hypernet="separate", rays=laid_out(2, problem.m)).target.norms
    if norms:
        raise HyperfrontError(
            "evolutionary algorithms are for networks without BatchNorm, whose statistics would be another search",
            got=f"{len(norms)} of them: {', '.join([*norms][:3])}, ...",
            fix="leave nsga3 and moead out",
        )


class _Fitness:
    """Losses ``[P, m]`` of weights ``[P, n]``, in float64 where there are no data to be noisy."""

    def __init__(self, problem: Problem, population: int, rows: int, device: torch.device):
        self.problem, self.m = problem, problem.m
        rays = laid_out(population, problem.m)
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


def _begin(name: str, fitness: _Fitness, theta: Tensor, limit: float, seed: list[int]) -> Any:
    """An algorithm of pymoo that has evaluated the population it begins with."""
    try:
        from pymoo.algorithms.moo.moead import ParallelMOEAD
        from pymoo.algorithms.moo.nsga3 import NSGA3
        from pymoo.core.problem import Problem as Pymoo
    except ImportError:
        raise HyperfrontError("NSGA-III and MOEA/D need pymoo", fix="pip install 'hyperfront[compare]'") from None

    class Weights(Pymoo):
        def __init__(self) -> None:
            super().__init__(n_var=theta.shape[1], n_obj=fitness.m, xl=-limit, xu=limit)

        def _evaluate(self, x: np.ndarray, out: dict[str, Any], *_: Any, **__: Any) -> None:
            out["F"] = fitness(x)

    directions, sampling = _directions(fitness.m, len(theta)).numpy(), theta.double().clamp(-limit, limit).numpy()
    if name == "nsga3":
        algorithm = NSGA3(ref_dirs=directions, pop_size=len(theta), sampling=sampling)
    else:
        algorithm = ParallelMOEAD(ref_dirs=directions, n_neighbors=min(20, len(theta)), sampling=sampling)
    number = int(np.random.SeedSequence(seed).generate_state(1)[0])
    algorithm.setup(Weights(), termination=("n_gen", BLOCK + 1), seed=number, verbose=False)
    algorithm.next()
    return algorithm


def _memory(name: str, algorithm: Any) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """All that an algorithm knows: arrays, and the state of its random numbers."""
    arrays = {key: algorithm.pop.get(key) for key in ("X", "F")}
    arrays |= {key: getattr(_place(name, algorithm), key) for key in MEMORY[name]}
    return {key: torch.from_numpy(array) for key, array in arrays.items()}, algorithm.random_state.bit_generator.state


def _remember(name: str, algorithm: Any, memory: dict[str, Tensor], random: dict[str, Any]) -> None:
    from pymoo.core.population import Population

    algorithm.pop = Population.new(**{key: memory[key].numpy() for key in ("X", "F")})
    for key in MEMORY[name]:
        setattr(_place(name, algorithm), key, memory[key].numpy())
    algorithm.random_state.bit_generator.state = random


def _place(name: str, algorithm: Any) -> Any:
    """Where an algorithm keeps what it remembers."""
    return algorithm.survival.norm if name == "nsga3" else algorithm
