"""The dense front behind the page: measured ray by ray, from coarse to fine, and kept in the run folder.

Between its rays the page interpolates, with the same surface that :mod:`hyperfront.front.search` uses.
"""

from __future__ import annotations

import hashlib
import itertools
import math
from dataclasses import replace

import torch
from torch import Tensor

from hyperfront.errors import CheckpointError
from hyperfront.front import Front
from hyperfront.preferences import das_dennis, rays
from hyperfront.training.runs import RunFolder

MOST = 130
"""Rays of the grid: enough for a smooth surface, few enough to be measured in minutes."""
FILE = "explorer.json"


def wanted(m: int) -> Tensor:
    """The rays to measure: the finest Das-Dennis grid of at most :data:`MOST` rays, and ``9 m`` inside.

    With many objectives such a coarse grid lies on the faces of the simplex, so rays inside are added.

    >>> len(wanted(2)), len(wanted(3)), len(wanted(7))
    (83, 147, 147)
    """
    sizes = itertools.takewhile(lambda h: math.comb(h + m - 1, m - 1) <= MOST, range(1, 65))
    return torch.cat([das_dennis(m, max(sizes, default=1)), rays(9 * m, m)])


def missing(front: Front) -> Tensor:
    """The wanted rays that ``front`` lacks, from coarse to fine."""
    return coarse_to_fine(wanted(len(front.objectives)), front.rays)


def coarse_to_fine(rays: Tensor, before: Tensor) -> Tensor:
    """Sort rays ``[R, m]`` so that each is as far as possible from the rays before it and from ``before``.

    So the first rays of any number are spread evenly. Rays that ``before`` contains are left out.

    >>> coarse_to_fine(das_dennis(2, 4), torch.tensor([[1.0, 0.0]], dtype=torch.float64))[:, 1]
    tensor([1.0000, 0.5000, 0.2500, 0.7500], dtype=torch.float64)
    """
    distance = torch.cdist(rays, before).amin(1)
    order = []
    while distance.numel() and distance.max() > 1e-6:
        order.append(int(distance.argmax()))
        distance = torch.minimum(distance, (rays - rays[order[-1]]).norm(dim=1))
    return rays[order]


def joined(first: Front, second: Front) -> Front:
    """Join two fronts."""
    scores = {name: torch.cat([values, second.scores[name]]) for name, values in first.scores.items()}
    return replace(
        first,
        rays=torch.cat([first.rays, second.rays]),
        losses=torch.cat([first.losses, second.losses]),
        scores=scores,
    )


def stored(folder: RunFolder) -> Front | None:
    """Read the front measured by the explorer for the same checkpoint, or else by the run at its end."""
    try:
        front = Front.load(folder.path / FILE)
        if front.provenance.get("checkpoint") == digest(folder):
            return front
    except CheckpointError:  # never explored
        pass
    whole = folder.front.exists() and folder.front.stat().st_mtime >= folder.checkpoint().stat().st_mtime
    return Front.load(folder.front) if whole else None  # otherwise the front belongs to earlier weights


def store(front: Front, folder: RunFolder, checkpoint: str) -> None:
    """Store the front for the next call; ``checkpoint`` is the :func:`digest` of its checkpoint."""
    marked = replace(front, provenance={**front.provenance, "checkpoint": checkpoint})
    marked.save(folder.path / FILE)


def digest(folder: RunFolder) -> str:
    """Checksum of the checkpoint of a run."""
    return hashlib.sha256(folder.checkpoint().read_bytes()).hexdigest()
