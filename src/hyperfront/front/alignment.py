"""Rays that mean what they say on data that training has not seen.

EPO balances *training* losses: at a ray ``r`` it makes all ``r_j l_j`` equal, for the losses of the batches that it is
trained on. Objectives differ in how well they generalize, so on unseen data the products drift apart, the further the
longer one trains. What a user asks for with ``r`` is the balance there. So the hypernetwork is asked for another ray,

    r'_j ~ r_j exp(c_j(r)),

with ``c`` such that the losses on a validation split lie where ``r`` wants them. The weights stay as they are: the
front is the same curve, on which every ray has moved to its place.
"""

from __future__ import annotations

from collections.abc import Callable

import torch

from hyperfront import indicators
from hyperfront.errors import HyperfrontError
from hyperfront.front.evaluate import evaluate
from hyperfront.model import ParetoModel
from hyperfront.model.expected import expect_model
from hyperfront.preferences import das_dennis
from hyperfront.problem import Split

TURNS = 12
RATE = 0.5
"""The share of what is missing that a turn adds to ``c``."""
LARGEST = 3.0
"""No entry of a ray is changed by more than this, as a logarithm: a front that ends is not met by going on."""


@torch.no_grad()
def align(
    model: ParetoModel, split: Split, *, batch_size: int = 1024, turned: Callable[..., None] = lambda turn, turns: None
) -> None:
    """Align the rays of ``model``, which was trained with the convention ``inverse``, on ``split`` (validation data).

    On a grid of rays ``c`` is found by iteration, ``c_j <- c_j + rate (ln r_j - ln d_j)``, where ``d_j ~ 1 / l_j`` is
    the ray that was reached; of all turns each grid ray keeps the ``c`` with the best uniformity. ``turned(turn=...,
    turns=...)`` is called after each.
    """
    expect_model(model, "align")
    check_convention(model.record.get("convention", "inverse"))
    partitions = model.target.grid(model.m)
    rays = das_dennis(model.m, partitions).clamp_min(0.25 / partitions)  # a corner asks for the impossible
    rays = rays / rays.sum(-1, keepdim=True)
    c, best, found = torch.zeros_like(rays), torch.full((len(rays),), -torch.inf).double(), torch.zeros_like(rays)
    for turn in range(1, TURNS + 1):
        model.alignment = c.to(model.alignment)
        losses = evaluate(model, split, rays, batch_size=batch_size).losses.double()
        uniformity = indicators.uniformity(losses, rays)
        better = uniformity > best
        best, found = torch.where(better, uniformity, best), torch.where(better[:, None], c, found)
        reached = losses.clamp_min(1e-12).reciprocal()
        c = c + RATE * (rays.log() - (reached / reached.sum(-1, keepdim=True)).log())
        c = (c - c.mean(-1, keepdim=True)).clamp(-LARGEST, LARGEST)
        turned(turn=turn, turns=TURNS)
    model.alignment = found.to(model.alignment)


def check_convention(convention: str) -> None:
    """An error for rays that ask for anything but a balance of losses."""
    if convention != "inverse":
        raise HyperfrontError(
            "only rays that ask for a balance of losses can be aligned",
            got=f"a model whose rays are {convention}",
            expected="one that is trained with EPO, Tchebycheff, or another solver of the convention 'inverse'",
        )
