"""NSGA-III and MOEA/D of pymoo: how each starts, and the state that it keeps between generations."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from hyperfront.errors import HyperfrontError

Fitness = Callable[[np.ndarray], np.ndarray]
"""Maps weights ``[P, n]`` to losses ``[P, m]``."""
Memory = tuple[dict[str, Tensor], dict[str, Any]]
"""The state of an algorithm: arrays, and the state of its random numbers."""


def _nsga3(directions: np.ndarray, sampling: np.ndarray) -> Any:
    from pymoo.algorithms.moo.nsga3 import NSGA3

    return NSGA3(ref_dirs=directions, pop_size=len(sampling), sampling=sampling)


def _moead(directions: np.ndarray, sampling: np.ndarray) -> Any:
    from pymoo.algorithms.moo.moead import ParallelMOEAD

    return ParallelMOEAD(ref_dirs=directions, n_neighbors=min(20, len(sampling)), sampling=sampling)


@dataclass(frozen=True)
class Algorithm:
    """An algorithm of pymoo."""

    label: str
    make: Callable[[np.ndarray, np.ndarray], Any]
    """Makes the algorithm from directions ``[P, m]`` and a population ``[P, n]``."""
    remembers: tuple[str, ...]
    """Names of the attributes that it keeps between generations, beside population and random numbers."""
    place: Callable[[Any], Any]
    """Returns the object that holds these attributes."""

    def begin(
        self, fitness: Fitness, directions: Tensor, theta: Tensor, limit: float, *, generations: int, seed: list[int]
    ) -> Any:
        """Start the algorithm, and evaluate its initial population ``theta [P, n]``."""
        try:
            from pymoo.core.problem import Problem
        except ImportError:
            raise HyperfrontError("NSGA-III and MOEA/D need pymoo", fix="pip install 'hyperfront[compare]'") from None

        class Weights(Problem):
            def __init__(self) -> None:
                super().__init__(n_var=theta.shape[1], n_obj=directions.shape[1], xl=-limit, xu=limit)

            def _evaluate(self, x: np.ndarray, out: dict[str, Any], *_: Any, **__: Any) -> None:
                out["F"] = fitness(x)

        algorithm = self.make(directions.numpy(), theta.double().clamp(-limit, limit).numpy())
        number = int(np.random.SeedSequence(seed).generate_state(1)[0])
        algorithm.setup(Weights(), termination=("n_gen", generations + 1), seed=number, verbose=False)
        algorithm.next()
        return algorithm

    def memory(self, algorithm: Any) -> Memory:
        """Read the state of the algorithm."""
        arrays = {key: algorithm.pop.get(key) for key in ("X", "F")}
        arrays |= {key: getattr(self.place(algorithm), key) for key in self.remembers}
        known = {key: torch.from_numpy(array) for key, array in arrays.items()}
        return known, algorithm.random_state.bit_generator.state

    def remember(self, algorithm: Any, memory: Memory) -> None:
        """Restore the state that the algorithm had when it was stopped."""
        from pymoo.core.population import Population

        arrays, random = memory
        algorithm.pop = Population.new(**{key: arrays[key].numpy() for key in ("X", "F")})
        for key in self.remembers:
            setattr(self.place(algorithm), key, arrays[key].numpy())
        algorithm.random_state.bit_generator.state = random


ALGORITHMS = {
    "nsga3": Algorithm(
        label="NSGA-III",
        make=_nsga3,
        remembers=("ideal_point", "worst_point", "nadir_point", "extreme_points"),
        place=lambda algorithm: algorithm.survival.norm,
    ),
    "moead": Algorithm(label="MOEA/D", make=_moead, remembers=("ideal",), place=lambda algorithm: algorithm),
}
