"""Initial weights of separate models: each has its own random initialization, the same for every method."""

from __future__ import annotations

import math
from collections.abc import Iterable

import numpy as np
import torch
from torch import Tensor, nn

from hyperfront.errors import ProblemError
from hyperfront.problem import Point, Problem


def starts(problem: Problem, which: int | Iterable[int], seed: int) -> Tensor:
    """Draw initial weights ``[R, n]`` of models number ``which`` (or of the first ``which``) from ``(seed, number)``.

    A network is initialized by its own code. A point of an analytic problem, which has no such code, is drawn evenly
    over its angles in the box, ``z ~ U(-pi/4, pi/4)``, or from ``N(0, 1/d)`` if there is no box.
    """
    if problem.make_target is None:
        raise ProblemError("the problem has no target of its own", fix="supervised(..., make_target=YourModule)")
    if seed < 0:
        raise ProblemError("a seed cannot be negative", got=seed)
    rows = []
    for number in range(which) if isinstance(which, int) else which:
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(int(np.random.SeedSequence([seed, number]).generate_state(1, np.uint64)[0] >> 1))
            rows.append(_vector(problem.make_target()))
    return torch.stack(rows)


def _vector(module: nn.Module) -> Tensor:
    if isinstance(module, Point):
        z = module.z.detach()
        return (
            torch.randn_like(z) / math.sqrt(len(z)) if module.low is None else (torch.rand_like(z) - 0.5) * math.pi / 2
        )
    return nn.utils.parameters_to_vector(module.parameters()).detach()
