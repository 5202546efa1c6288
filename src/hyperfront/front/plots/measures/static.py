"""Losses or scores against each other, for paper."""

from __future__ import annotations

from collections.abc import Sequence
from textwrap import fill
from typing import Any

import numpy as np
from matplotlib import rc_context
from matplotlib.figure import Figure

from hyperfront.front.plots import INK, PAPER
from hyperfront.front.plots.measures import Cloud, look
from hyperfront.front.plots.static import STYLE, Picture, dot


def draw(found: Sequence[Cloud], labels: Sequence[str], title: tuple[str, str]) -> Figure:
    """A matplotlib figure. Hollow points are dominated; a line joins the best points of the front in the plane."""
    solid = len(labels) == 3
    with rc_context(STYLE):
        figure = Picture(figsize=(6.4, 5.4), layout=None if solid else "constrained")
        axes: Any = figure.add_subplot(projection="3d" if solid else None)
        handles = []
        for place, cloud in enumerate(found):
            color, mark = look(place)
            drawn = {"s": 26, "marker": mark[0], "edgecolors": color, "linewidths": 1.1}
            options = {"depthshade": False} if solid else {"zorder": 4}
            faces = list(np.where(cloud.best, color, PAPER))
            axes.scatter(*cloud.values.T, facecolors=faces, **drawn, **options)
            handles.append(dot(cloud.name, color=color, marker=mark[0]))
            if not place and not solid:
                line = cloud.values[cloud.best]
                axes.plot(*line[line[:, 0].argsort()].T, color=INK, linewidth=0.8)
        for axis, text in zip("xyz", labels):
            getattr(axes, f"set_{axis}label")(fill(text, 44), labelpad=8 if solid else 4)
        if not solid:
            axes.grid(True)
        if not all(cloud.best.all() for cloud in found):
            handles.append(dot("dominated", color=INK, markerfacecolor=PAPER))
        figure.legend(handles=handles, loc="lower center" if solid else "outside lower center", ncols=3)
        figure.suptitle("\n".join(title), fontsize=11)
    return figure
