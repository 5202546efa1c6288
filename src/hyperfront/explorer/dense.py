"""The dense front behind the page: measured ray by ray, from coarse to fine, and kept in the run folder.

Between its rays the page interpolates, with the same surface that :mod:`hyperfront.selection` uses.
"""

from __future__ import annotations

import hashlib
import itertools
import math
from dataclasses import replace
from pathlib import Path

import torch
from torch import Tensor

from hyperfront.errors import CheckpointError
from hyperfront.front import Front
from hyperfront.preferences import das_dennis, rays
from hyperfront.runs import RunFolder

MOST = 130
"""Rays of the grid: enough for a smooth surface, few enough to be measured over a cup of coffee."""
FILE = "explorer.json"


def wanted(m: int) -> Tensor:
    """The rays to measure: the finest Das-Dennis grid of at most :data:`MOST` rays, and ``9 m`` inside.

    With many objectives a grid that coarse lies on the faces of the simplex, and says nothing of its middle.

    >>> len(wanted(2)), len(wanted(3)), len(wanted(7))
    (83, 147, 147)
    """
    sizes = itertools.takewhile(lambda h: math.comb(h + m - 1, m - 1) <= MOST, range(1, 65))
    return torch.cat([das_dennis(m, max(sizes, default=1)), rays(9 * m, m)])


def missing(front: Front, most: int | None = None) -> Tensor:
    """The wanted rays that ``front`` lacks, those farthest from all before them first.

    So a front that is still being measured is as even as it can be.
    """
    chosen, left = front.rays, wanted(len(front.objectives))
    order = []
    while len(left):
        distance = torch.cdist(left, chosen).amin(1)
        far = int(distance.argmax())
        if distance[far] < 1e-6 or len(order) == most:
            break
        order.append(left[far])
        chosen, left = torch.cat([chosen, left[far][None]]), torch.cat([left[:far], left[far + 1 :]])
    return torch.stack(order) if order else front.rays[:0]


def joined(first: Front, second: Front) -> Front:
    """Both fronts as one."""
    scores = {name: torch.cat([values, second.scores[name]]) for name, values in first.scores.items()}
    return replace(
        first,
        rays=torch.cat([first.rays, second.rays]),
        losses=torch.cat([first.losses, second.losses]),
        scores=scores,
    )


def stored(folder: RunFolder, checkpoint: Path) -> Front | None:
    """What was measured before: by the explorer for this very checkpoint, or else by the run at its end."""
    try:
        front = Front.load(folder.path / FILE)
        if front.provenance.get("checkpoint") == digest(checkpoint):
            return front
    except CheckpointError:  # never explored, or half a file
        pass
    ended = checkpoint == folder.checkpoint() and folder.front.exists()
    return Front.load(folder.front) if ended else None


def store(front: Front, folder: RunFolder, checkpoint: Path) -> None:
    """Keep the front for the next time."""
    marked = replace(front, provenance={**front.provenance, "checkpoint": digest(checkpoint)})
    marked.save(folder.path / FILE)


def digest(file: Path) -> str:
    return hashlib.sha256(file.read_bytes()).hexdigest()
