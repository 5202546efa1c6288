"""Alignment: move rays so that they balance the losses on validation data, not on training data.

EPO balances *training* losses: at a ray ``r`` it makes all ``r_j l_j`` equal, for the losses of the batches that it is
trained on. Objectives differ in how well they generalize, so on unseen data the products drift apart, and longer
training drives them further apart. A user who asks for ``r`` means the balance on unseen data. So the hypernetwork gets
another ray,

    r'_j ~ r_j exp(c_j(r)),

with ``c`` chosen so that all ``r_j l_j`` are equal on a validation split. The weights do not change: the front is the
same curve, and only the assignment of rays to its points is new.
"""

from __future__ import annotations

from collections.abc import Callable

import torch

from hyperfront import indicators
from hyperfront.errors import HyperfrontError, ProblemError, shown
from hyperfront.errors.signatures import checked
from hyperfront.front.evaluate import evaluate
from hyperfront.front.front import Front
from hyperfront.model import ParetoModel, statistics
from hyperfront.model.expected import expect_model
from hyperfront.preferences import das_dennis
from hyperfront.problem import Split

TURNS = 12
RATE = 0.5
"""Each turn adds this share of the remaining difference to ``c``."""
LARGEST = 3.0
"""The largest change of the logarithm of an entry: beyond the end of a front no change reaches the balance."""


@checked
@torch.no_grad()
def align(
    model: ParetoModel,
    split: Split,
    *,
    batch_size: int = 1024,
    turned: Callable[..., None] = lambda turn, turns: None,
    measure: Callable[..., Front] = evaluate,
) -> None:
    """Align the rays of ``model``, which was trained with the convention ``inverse``, on ``split`` (validation data).

    On a grid of rays ``c`` is found by iteration, ``c_j <- c_j + rate (ln r_j - ln d_j)``, where ``d_j ~ 1 / l_j`` is
    the ray that was reached. Each grid ray keeps the ``c`` of the turn with its best uniformity. ``turned(turn=...,
    turns=...)`` is called after each turn; ``measure`` measures fronts, in place of :func:`hyperfront.evaluate`.
    """
    expect_model(model, "align")
    check_convention(model.record.get("convention", "inverse"))
    partitions = statistics.grid(model.m)
    rays = das_dennis(model.m, partitions).clamp_min(0.25 / partitions)  # a corner is impossible
    rays = rays / rays.sum(-1, keepdim=True)
    c, best, found = torch.zeros_like(rays), torch.full((len(rays),), -torch.inf).double(), torch.zeros_like(rays)
    for turn in range(1, TURNS + 1):
        model.alignment = c.to(model.alignment)
        front = measure(model, split, rays, batch_size=batch_size)
        if not isinstance(front, Front):
            raise ProblemError("measure returned no front", got=shown(front), expected="a Front at the given rays")
        losses = front.losses.double()
        uniformity = indicators.uniformity(losses, rays)
        better = uniformity > best
        best, found = torch.where(better, uniformity, best), torch.where(better[:, None], c, found)
        reached = losses.clamp_min(1e-12).reciprocal()
        c = c + RATE * (rays.log() - (reached / reached.sum(-1, keepdim=True)).log())
        c = (c - c.mean(-1, keepdim=True)).clamp(-LARGEST, LARGEST)
        turned(turn=turn, turns=TURNS)
    model.alignment = found.to(model.alignment)


def check_convention(convention: str) -> None:
    """Raise an error unless rays ask for a balance of losses."""
    if convention != "inverse":
        raise HyperfrontError(
            "only rays that ask for a balance of losses can be aligned",
            got=f"a model whose rays are {convention}",
            expected="a model trained with EPO, Tchebycheff, or another solver of the convention 'inverse'",
        )
