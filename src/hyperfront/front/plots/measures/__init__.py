"""Any two or three losses or scores of a front against each other, with other points beside it.

``static`` and ``interactive`` draw the clouds of points that this file collects.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch

from hyperfront import indicators
from hyperfront.errors import HyperfrontError, unknown_name
from hyperfront.front import plots
from hyperfront.front.plots import BLUE, VERMILION

OTHERS = (VERMILION, "#009e73", "#cc79a7", "#e69f00")
"""Colors of points beside the front; their marks differ too."""
MARKS = (("o", "circle"), ("s", "square"), ("^", "triangle-up"), ("D", "diamond"), ("X", "x"))


class Cloud(NamedTuple):
    """Points to draw: ``values [R, A]`` on the axes, and whether no other point of the cloud is better ``[R]``."""

    name: str
    values: np.ndarray
    best: np.ndarray
    texts: list[str]


def clouds(
    axes: Sequence[str],
    meanings: Mapping[str, Any],
    own: Mapping[str, Any],
    rays: Any,
    beside: Mapping[str, Mapping[str, Any]],
) -> list[Cloud]:
    """The front first, then the points beside it; points without one of the values are left out."""
    for name in axes:
        if name not in own:
            raise unknown_name("loss or score", name, [*own])
    if not len(plots.array(rays)):
        raise HyperfrontError("nothing to draw", got="a front without rays")
    words = [f"ray ({', '.join(f'{entry:.4g}' for entry in ray)})" for ray in plots.array(rays)]
    found = [_cloud("front", axes, meanings, own, words)]
    for word, columns in beside.items():
        missing = [name for name in axes if name not in columns]
        if missing:
            raise HyperfrontError(
                f"the points of {word} lack a loss or score that is drawn",
                got=", ".join(columns) or "none of the front's losses and scores",
                expected=", ".join(axes),
                fix="name columns as the front does, or draw others with x= and y=",
            )
        count = len(plots.array(columns[axes[0]]))
        found.append(_cloud(word, axes, meanings, columns, [f"{word}, point {place + 1}" for place in range(count)]))
    return found


def _cloud(
    name: str, axes: Sequence[str], meanings: Mapping[str, Any], columns: Mapping[str, Any], words: list[str]
) -> Cloud:
    values = np.stack([plots.array(columns[axis]) for axis in axes], axis=1)
    known = np.flatnonzero(np.isfinite(values).all(axis=1))
    values = values[known]
    signs = np.array([-1.0 if meanings[axis].maximize else 1.0 for axis in axes])
    directed = all(meanings[axis].maximize is not None for axis in axes)
    best = indicators.nondominated(torch.as_tensor(values * signs)).numpy() if directed else np.ones(len(values), bool)
    return Cloud(name, values, best, [words[row] for row in known])


def look(place: int) -> tuple[str, tuple[str, str]]:
    """Color and mark of the front, or of the points beside it."""
    return (BLUE, MARKS[0]) if not place else (OTHERS[(place - 1) % len(OTHERS)], MARKS[1 + (place - 1) % 4])
