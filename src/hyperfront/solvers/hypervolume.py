"""The derivative of the hypervolume of a set of points, exact for any number of objectives.

The hypervolume is the volume of the union of the boxes ``[l_i, reference]``. If ``l_ij`` falls by ``h``, the union
grows by ``h`` times the part of box ``i``'s lower face ``j`` that no other box covers (Emmerich & Deutz, 2014). A box
``k`` covers some of it only if it begins below, ``l_kj < l_ij``. With ``'`` for leaving out coordinate ``j``,

    -dHV/dl_ij = HV'({l'_i} and {l'_k : l_kj < l_ij}) - HV'({l'_k : l_kj < l_ij})                               (1)

so with the points in the order of coordinate ``j`` the derivatives are the increments of ``HV'``. In the plane ``HV'``
is a length, and (1) is the distance to the neighbors on the staircase. Where points tie in coordinate ``j``, the
derivative does not exist, and (1) is a one-sided derivative.
"""

from __future__ import annotations

import math

import numpy as np
import torch
from torch import Tensor


def gradient(losses: Tensor, reference: Tensor, layer: Tensor) -> Tensor:
    """Compute ``-dHV/dl [R, m]`` for points ``[R, m]``, each in the set of its ``layer [R]``; see :func:`layers`.

    Points that are not below the reference in all objectives do not count, and their derivative is 0. For two
    objectives this runs on the device of the losses, without a read from it; for more objectives it runs on the host.

    >>> points, same = torch.tensor([[0.0, 1.0], [1.0, 0.0]]), torch.tensor([0, 0])
    >>> gradient(points, torch.tensor([3.0, 2.0]), same)
    tensor([[1., 1.],
            [1., 2.]])
    """
    inside = (losses < reference).all(-1, keepdim=True)
    slope = _plane(losses, reference, layer) if losses.shape[1] == 2 else _sweeps(losses, reference, layer)
    return slope.masked_fill(~inside, 0)


def layers(losses: Tensor) -> Tensor:
    """Sort points by dominance ``[R]``: layer 0 has the non-dominated points, layer 1 the points that only layer 0
    dominates, and so on.

    A point's layer is the length of the longest chain of points that dominate each other and it. Lengths of paths add
    up, so squaring the matrix of chains, with max for + and + for times, doubles the lengths that it covers.

    >>> layers(torch.tensor([[0.0, 1.0], [1.0, 0.0], [1.0, 1.0], [2.0, 2.0]]))
    tensor([0, 0, 1, 2])
    """
    no_worse = (losses[:, None] <= losses[None]).all(-1)  # [i, j]: i is no worse than j
    better = (losses[:, None] < losses[None]).any(-1)
    chains = torch.where(no_worse & better, 1.0, -math.inf).fill_diagonal_(0)
    for _ in range((len(losses) - 1).bit_length()):
        chains = (chains[:, :, None] + chains[None]).amax(1)
    return chains.amax(0).long()


def _plane(losses: Tensor, reference: Tensor, layer: Tensor) -> Tensor:
    """Compute (1) for ``m = 2``: distances on a staircase from left to right, up to the previous step and right to the
    next one."""
    order = losses[:, 0].argsort(stable=True)
    order = order[layer[order].argsort(stable=True)]
    # a point outside is moved to the border, where it takes nothing from its neighbors
    x, y = torch.minimum(losses, reference)[order].unbind(-1)
    same = layer[order].diff() == 0
    width, height = reference.unbind(-1)
    above = torch.cat([height[None], torch.where(same, y[:-1], height)])
    right = torch.cat([torch.where(same, x[1:], width), width[None]])
    return torch.stack([above - y, right - x], -1)[order.argsort()]


def _sweeps(losses: Tensor, reference: Tensor, layer: Tensor) -> Tensor:
    """Compute (1) for any ``m``, by ``m R`` hypervolumes of moocore in ``m - 1`` dimensions."""
    from moocore import hypervolume

    points, corner, group = (t.detach().cpu().numpy() for t in (losses.double(), reference.double(), layer))
    slope = np.zeros_like(points)
    inside = (points < corner).all(1)
    for rank in np.unique(group[inside]):
        rows = np.flatnonzero(inside & (group == rank))
        for j in range(points.shape[1]):
            order = rows[points[rows, j].argsort(kind="stable")]
            rest, limit = np.delete(points[order], j, axis=1), np.delete(corner, j)
            volumes = [hypervolume(rest[: count + 1], ref=limit) for count in range(len(order))]
            slope[order, j] = np.diff(volumes, prepend=0.0)
    return torch.from_numpy(slope).to(losses)
