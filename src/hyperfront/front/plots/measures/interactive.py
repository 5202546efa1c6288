"""Losses or scores against each other, for the browser."""

from __future__ import annotations

from collections.abc import Sequence

import plotly.graph_objects as go

from hyperfront.front.plots import PALE
from hyperfront.front.plots.interactive import AXIS, dress
from hyperfront.front.plots.measures import Cloud, look


def draw(found: Sequence[Cloud], labels: Sequence[str], title: tuple[str, str]) -> go.Figure:
    """A plotly figure, which shows ray and values of the point under the pointer."""
    solid, figure = len(labels) == 3, go.Figure()
    add = figure.add_scatter3d if solid else figure.add_scatter
    for place, cloud in enumerate(found):
        color, (_, mark) = look(place)
        mark = "cross" if solid and mark in ("triangle-up", "x") else mark  # space has few marks
        symbols = [mark if good else f"{mark}-open" for good in cloud.best]
        texts = [
            "<br>".join([f"<b>{word}</b>", *(f"{name}: <b>{value:.4g}</b>" for name, value in zip(labels, row))])
            for word, row in zip(cloud.texts, cloud.values)
        ]
        where = dict(zip("xyz", cloud.values.T.tolist()))
        marker = {"size": 5 if solid else 9, "color": color, "symbol": symbols}
        hover = {"text": texts, "hovertemplate": "%{text}<extra></extra>"}
        add(**where, mode="markers", marker=marker, name=cloud.name, showlegend=True, **hover)
    names = {f"{axis}axis": {"title": {"text": text}} for axis, text in zip("xyz", labels)}
    if solid:
        plain = {"gridcolor": PALE, "showbackground": False, "zeroline": False}
        camera = {"eye": {"x": 1.8, "y": 1.6, "z": 0.9}, "center": {"x": 0, "y": 0, "z": -0.15}}
        scene = {key: {**axis, **plain} for key, axis in names.items()}
        figure.update_layout(scene=scene | {"aspectmode": "cube", "camera": camera})
    else:
        figure.update_layout({key: {**axis, **AXIS} for key, axis in names.items()})
    return dress(figure, *title)
