"""Figures in the style of :mod:`hyperfront.front.plots.static`: a row of panels, and marks for methods."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
from matplotlib import rc_context
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import LogLocator, NullFormatter, StrMethodFormatter

from hyperfront.comparison.method import Method
from hyperfront.comparison.methods import METHODS
from hyperfront.front.plots import BLUE, INK, MUTED, VERMILION
from hyperfront.front.plots.static import COLORMAP, STYLE

MARK_OF = {
    "phn-epo": "o", "phn-ls": "x", "epo": "s", "ls": "^", "pmtl": "D", "cpmtl": ".", "mgda": "v", "nsga3": "P",
    "moead": "X",
}  # fmt: skip
COLOR_OF = {"phn-epo": BLUE, "phn-ls": "#56b4e9", "epo": VERMILION, "ls": "#e69f00", "pmtl": "#009e73"}
"""Colors of methods in figures that color by method."""


@contextmanager
def panels(rows: int, columns: int, *, width: float = 3.2, height: float = 3.0) -> Iterator[tuple[Figure, np.ndarray]]:
    """A figure and its axes ``[rows, columns]``, in our style."""
    with rc_context(STYLE | {"text.parse_math": True}):
        figure = Figure(figsize=(max(width * columns, 4.2), height * rows + 0.5), layout="constrained")
        axes = np.asarray(figure.subplots(rows, columns, squeeze=False))
        for each in axes.flat:
            each.grid(True)
        yield figure, axes


def ray_colors(rays: Any) -> np.ndarray:
    """Colors ``[R, 4]`` by the first entry of each ray."""
    return COLORMAP(np.asarray(rays, float)[:, 0])


def methods_legend(
    figure: Figure, methods: Iterable[str], *, colored: bool = True, more: Sequence[Artist] = ()
) -> None:
    """Explain the marks (and colors) of methods and ``more`` artists below the panels."""
    handles: list[Artist] = [
        Line2D([], [], linestyle="", marker=MARK_OF[m], label=METHODS[m].label, color=COLOR_OF[m] if colored else INK)
        for m in dict.fromkeys(methods)
    ]
    count = len(handles) + len(more)
    columns = math.ceil(count / math.ceil(count / 6))  # rows of the same length, of at most six
    figure.legend(handles=[*handles, *more], loc="outside lower center", ncols=columns)


def scatter(axes: Axes, method: Method, rays: Any, losses: Any, *, hollow: bool = False) -> None:
    """Draw points of a method in the plane, colored by ray, if they have rays."""
    points, mark = np.asarray(losses, float), MARK_OF[method.name]
    colors = ray_colors(rays) if len(rays) == len(points) else MUTED
    filled = mark != "x"
    look: dict[str, Any] = {"c": colors, **({"edgecolors": INK, "linewidths": 0.6} if filled else {"linewidths": 1.4})}
    if hollow:
        look = {"facecolors": "none", "edgecolors": colors, "linewidths": 1.2}
    axes.scatter(*points.T, marker=mark, s=34 if method.has_rays else 12, zorder=4, **look)


def logarithmic(axes: Axes, *, upwards: bool = False) -> None:
    """Make the horizontal axis logarithmic, or both axes (``upwards``), with plain numbers in every decade."""
    axes.set_xscale("log")
    if upwards:
        axes.set_yscale("log")
    for axis in (axes.xaxis, axes.yaxis) if upwards else (axes.xaxis,):
        axis.set_major_locator(LogLocator(subs=(1, 2, 3, 5, 7) if upwards else (1, 2, 5)))
        axis.set_major_formatter(StrMethodFormatter("{x:g}"))
        axis.set_minor_formatter(NullFormatter())
