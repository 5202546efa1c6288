"""Fronts for the browser: plotly figures that show ray, losses and scores of the point under the pointer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from textwrap import fill
from typing import Any

import numpy as np
import plotly.graph_objects as go
from plotly.colors import sample_colorscale
from torch import Tensor

from hyperfront.front import plots
from hyperfront.front.plots import BLUE, INK, MUTED, PALE, PAPER, SEQUENTIAL, VERMILION, FrontLike

AXIS = {"gridcolor": PALE, "linecolor": MUTED, "showline": True, "zeroline": False, "ticks": "outside"}
QUIET = {"hoverinfo": "skip", "showlegend": False}


def front(front: FrontLike, *, kind: str = "auto") -> go.Figure:
    """Draw the front as a ``2d``, ``3d``, ``ternary`` or ``parallel`` plot; ``auto`` chooses by the objectives.

    Points are colored by the first entry of their ray; in ``ternary`` a menu chooses loss, score or uniformity.
    """
    kind = plots.kind_for(front, kind)
    figure = {"2d": _plane, "3d": _space, "ternary": _ternary, "parallel": _parallel}[kind](front)
    return dress(figure, *plots.headline(front, kind))


def evolution(
    records: Sequence[Mapping[str, Any]],
    *,
    objectives: Sequence[str],
    truth: Tensor | None = None,
    reference: Sequence[float] | None = None,
) -> go.Figure:
    """Draw the front during training: a slider over epochs moves the front, beside hypervolume and uniformity.

    ``records`` hold ``epoch``, ``losses [R, m]``, ``hypervolume`` and ``uniformity``; ``truth [K, m]``. Beyond two
    objectives the front is drawn in parallel coordinates. At most 200 epochs are kept, evenly spaced.
    """
    records = plots.evenly_spaced(records, 200)
    epochs, losses = [record["epoch"] for record in records], [plots.array(record["losses"]) for record in records]
    figure = go.Figure()
    if len(objectives) == 2:
        _add_plane(figure, losses, objectives=objectives, truth=truth, reference=reference)
        paths = [[values] for values in losses]
    else:
        spans = [plots.ends(column) for column in np.concatenate(losses).T]
        _add_parallel_axes(figure, objectives, spans)
        paths = [plots.parallel_lines(values, spans) for values in losses]
    look = {"mode": "lines+markers", "line": {"color": BLUE, "width": 1}, "marker": {"size": 8}, "name": "front"}
    texts = [_losses(objectives, values) for values in losses]
    states = [[go.Scatter(**_coordinates(p), **look, **t) for p, t in zip(paths, texts)]]  # what moves, at each epoch
    for axis, curve in enumerate(plots.history(records, truth, reference), start=2):
        where = {"xaxis": f"x{axis}", "yaxis": f"y{axis}", "showlegend": False, "name": curve.name}
        where["hovertemplate"] = "epoch %{x}: %{y:.4g}<extra></extra>"
        figure.add_scatter(x=epochs, y=curve.values.tolist(), mode="lines", line={"color": BLUE}, **where)
        if np.isfinite(curve.best):
            dashes = {"mode": "lines", "line": {"color": MUTED, "width": 1, "dash": "dash"}}
            figure.add_scatter(x=[epochs[0], epochs[-1]], y=[curve.best] * 2, **where, **dashes)
            label = {"text": curve.best_name, "font": {"color": MUTED, "size": 12}, "showarrow": False}
            corner = {"x": epochs[0], "y": curve.best, "xref": f"x{axis}", "yref": f"y{axis}"}
            figure.add_annotation(**label, **corner, xanchor="left", yanchor="bottom")
        figure.update_layout({f"yaxis{axis}": {"range": curve.limits}})
        dot = {"mode": "markers", "marker": {"size": 11, "color": VERMILION}, **where}
        states.append([go.Scatter(x=[x], y=[y], **dot) for x, y in zip(epochs, curve.values.tolist())])
    fixed = len(list(figure.select_traces()))
    moving = list(range(fixed, fixed + len(states)))
    figure.add_traces([state[-1] for state in states])
    figure.frames = [go.Frame(data=list(s), name=str(e), traces=moving) for e, *s in zip(epochs, *states)]
    _add_player(figure, epochs)
    title = f"Front of {', '.join(objectives)} over epochs {epochs[0]} to {epochs[-1]}"
    dress(figure, title, f"{len(losses[0])} rays; move the slider or press play")
    inside = {"x": 0.01, "y": 0.01, "yref": "paper", "bgcolor": "rgba(255, 255, 255, 0.8)", "orientation": "v"}
    return figure.update_layout(legend=inside, showlegend=len(objectives) == 2)


def _plane(front: FrontLike) -> go.Figure:
    rays, losses = plots.array(front.rays), plots.array(front.losses)
    truth = None if front.truth is None else plots.array(front.truth)
    figure = go.Figure()
    high = _add_plane(figure, [losses], objectives=front.objectives, truth=truth, reference=front.reference)
    lines = plots.half_lines(rays, front.convention, upper=high)
    for index, (line, color) in enumerate(zip(lines, _ray_colors(front))):
        group = {"name": "rays", "legendgroup": "rays", "showlegend": index == 0, "hoverinfo": "skip"}
        figure.add_scatter(**_line([line], color, width=1), opacity=0.45, **group)
    figure.add_scatter(**_line(plots.joined(losses, truth), INK, width=1), **QUIET)
    return figure.add_scatter(x=losses[:, 0].tolist(), y=losses[:, 1].tolist(), **_points(front, size=11))


def _space(front: FrontLike) -> go.Figure:
    figure = go.Figure()
    if front.truth is not None:
        x, y, z = plots.array(front.truth).T.tolist()
        dust = {"size": 2.5, "color": MUTED, "opacity": 0.3}
        figure.add_scatter3d(x=x, y=y, z=z, mode="markers", marker=dust, name="true front", hoverinfo="skip")
    x, y, z = plots.array(front.losses).T.tolist()
    points = _points(front, size=6)
    del points["marker"]["line"]  # in 3d all points have one width
    figure.add_scatter3d(x=x, y=y, z=z, **points)
    look = {"gridcolor": PALE, "showbackground": False, "zeroline": False, "linecolor": MUTED, "showline": True}
    axes = {f"{axis}axis": {"title": {"text": name}, **look} for axis, name in zip("xyz", front.objectives)}
    camera = {"eye": {"x": 1.7, "y": 1.4, "z": 0.9}, "center": {"x": 0, "y": 0, "z": -0.12}}
    scene = {**axes, "camera": camera, "aspectmode": "cube"}
    return figure.update_layout(scene=scene, legend={"itemsizing": "constant"})


def _ternary(front: FrontLike) -> go.Figure:
    a, b, c = plots.array(front.rays).T.tolist()
    table, points = plots.columns(front), _points(front, size=13)
    looks = [_marker(column, size=13) for column in table]
    figure = go.Figure(go.Scatterternary(a=a, b=b, c=c, **{**points, "marker": {**points["marker"], **looks[0]}}))
    figure.update_traces(marker={"colorbar": {"title": {"text": ""}}})  # it would cover longer ticks
    title = {"xref": "paper", "x": 1, "xanchor": "right", "yref": "paper", "y": 1, "yanchor": "top", "showarrow": False}
    figure.add_annotation(text=table[0].label, **title)
    buttons = [{"label": column.label, "method": "update", "args": [
        {f"marker.{key}": [look[key]] for key in ("color", "cmin", "cmax")}, {"annotations[0].text": column.label}
    ]} for column, look in zip(table, looks)]  # fmt: skip
    axis = {"gridcolor": PALE, "linecolor": MUTED, "tickfont": {"color": MUTED}, "tickvals": [0.25, 0.5, 0.75]}
    sides = {f"{side}axis": {"title": {"text": name}, **axis} for side, name in zip("abc", front.objectives)}
    menu = {"buttons": buttons, "x": 0, "xanchor": "left", "y": 1, "yanchor": "top", "bgcolor": PAPER}
    return figure.update_layout(ternary={**sides, "bgcolor": PAPER}, updatemenus=[menu])


def _parallel(front: FrontLike) -> go.Figure:
    table = plots.columns(front)
    values, spans = np.stack([c.values for c in table], axis=1), [plots.ends(c.values) for c in table]
    figure = go.Figure()
    _add_parallel_axes(figure, [c.label for c in table], spans)
    lines = plots.parallel_lines(values, spans)
    for line, color in zip(lines, _ray_colors(front)):
        figure.add_scatter(**_line([line], color, width=1.5), opacity=0.8, **QUIET)
    points = _points(front, size=7)
    corners = np.repeat(np.arange(len(values)), len(table))  # the ray of each point
    marker, width = points["marker"], points["marker"]["line"]["width"]
    marker |= {key: [marker[key][ray] for ray in corners] for key in ("color", "symbol")}
    points |= {"text": [points["text"][ray] for ray in corners], "showlegend": False}
    marker["line"] = {"width": [width[ray] for ray in corners]}
    x, y = np.concatenate(lines).T.tolist()
    return figure.add_scatter(x=x, y=y, **points)


def _add_plane(figure: go.Figure, fronts: list, *, objectives: Any, truth: Any, reference: Any) -> np.ndarray:
    """Axes for the fronts, the true front and the reference point; returns the upper ends of the axes."""
    low, high = plots.limits(fronts, truth, reference)
    for name, objective, ends in zip(("xaxis", "yaxis"), objectives, zip(low.tolist(), high.tolist())):
        figure.update_layout({name: {"title": {"text": objective}, "range": ends, **AXIS}})
    if truth is not None:
        curves = _line(plots.curves(plots.array(truth)), MUTED, width=5)
        figure.add_scatter(**curves, opacity=0.45, name="true front", hoverinfo="skip")
    if reference is not None:
        x, y = np.minimum(plots.array(reference), high).tolist()
        inside = (plots.array(reference) <= high).all()
        look = {"size": 12, "color": VERMILION, "symbol": "x" if inside else "x-open"}
        label = plots.reference_label(reference, high)
        figure.add_scatter(x=[x], y=[y], mode="markers", marker=look, name=label, hoverinfo="name", cliponaxis=False)
    return high


def _add_parallel_axes(figure: go.Figure, names: Sequence[str], spans: list[tuple[float, float]]) -> None:
    labels = {"tickvals": list(range(len(names))), "ticktext": [fill(name, 14).replace("\n", "<br>") for name in names]}
    axis = {"range": [-0.2, len(names) - 0.5], "gridcolor": MUTED, "zeroline": False, **labels}
    figure.update_layout(xaxis=axis, yaxis={"range": [-0.05, 1.05], "visible": False})
    for place, span in enumerate(spans):
        for height, label in plots.parallel_ticks(*span):
            look = {"showarrow": False, "xanchor": "left", "xshift": 6, "bgcolor": "rgba(255, 255, 255, 0.8)"}
            figure.add_annotation(x=place, y=height, text=label, font={"size": 12}, **look)


def _add_player(figure: go.Figure, epochs: Sequence[int]) -> None:
    """Place the three panels, and add the slider and buttons that step through the frames."""
    figure.update_layout(xaxis={"domain": [0, 0.6]}, yaxis={"domain": [0, 1]})
    for axis, name, place in ((2, "hypervolume", [0.58, 1]), (3, "uniformity", [0, 0.42])):
        across = {"domain": [0.7, 1], "anchor": f"y{axis}", "title": {"text": "epoch"}, **AXIS}
        up = {"domain": place, "anchor": f"x{axis}", "title": {"text": name}, **AXIS}
        figure.update_layout({f"xaxis{axis}": across, f"yaxis{axis}": up})
    jump = {"mode": "immediate", "frame": {"duration": 0, "redraw": False}, "transition": {"duration": 0}}
    play = {"fromcurrent": True, "frame": {"duration": 150, "redraw": False}, "transition": {"duration": 0}}
    steps = [{"label": str(e), "method": "animate", "args": [[str(e)], jump]} for e in epochs]
    buttons = [{"label": "Play", "method": "animate", "args": [None, play]}]
    buttons += [{"label": "Pause", "method": "animate", "args": [[None], jump]}]
    slider = {"steps": steps, "active": len(steps) - 1, "x": 0.14, "len": 0.86, "currentvalue": {"prefix": "epoch "}}
    slider |= {"pad": {"t": 50}, "transition": {"duration": 0}}
    place = {"x": 0, "xanchor": "left", "y": 0, "yanchor": "top", "pad": {"t": 70}, "direction": "right"}
    menu = {"type": "buttons", "buttons": buttons, "showactive": False, "bgcolor": PAPER, **place}
    figure.update_layout(sliders=[slider], updatemenus=[menu])


def _points(front: FrontLike, *, size: int) -> dict[str, Any]:
    """Options of the trace of the rays' points: one colour, symbol and text for each ray."""
    rays, best = plots.array(front.rays), plots.best_of(plots.array(front.losses))
    marker = _marker(plots.ray_column(front), size=size)
    marker["symbol"] = ["circle" if good else "circle-open" for good in best]
    marker["line"] = {"width": (2.0 * ~best).tolist()}
    table, text = plots.columns(front), []
    for index, ray in enumerate(rays):
        lines = [f"<b>ray {index}</b> ({', '.join(f'{r:.4g}' for r in ray)})" + ("" if best[index] else ", dominated")]
        lines += [f"{c.label}: <b>{c.values[index]:.4g}</b>" for c in table]
        text.append("<br>".join(lines))
    hollow = "" if best.all() else " (dominated: hollow)"
    hover = {"text": text, "hovertemplate": "%{text}<extra></extra>"}
    return {"mode": "markers", "marker": marker, "name": f"front{hollow}", **hover}


def _losses(objectives: Sequence[str], values: np.ndarray) -> dict[str, Any]:
    """The hover text of one epoch: the losses of each ray, at its point or along its line in parallel coordinates."""
    rows = ["<br>".join(f"{name}: <b>{v:.4g}</b>" for name, v in zip(objectives, row)) for row in values]
    points = 1 if len(objectives) == 2 else len(objectives) + 1
    text = [f"<b>ray {ray}</b><br>{row}" for ray, row in enumerate(rows) for _ in range(points)]
    return {"text": text, "hovertemplate": "%{text}<extra></extra>"}


def _marker(column: plots.RayColumn, *, size: int) -> dict[str, Any]:
    low, high = plots.color_range(column)
    title = {"text": column.label, "side": "right", "font": {"size": 14}}
    bar = {"title": title, "thickness": 14, "outlinewidth": 0, "len": 0.9}
    colors = {"color": column.values.tolist(), "cmin": low, "cmax": high, "colorscale": list(SEQUENTIAL)}
    return {**colors, "colorbar": bar, "size": size, "opacity": 1}


def _ray_colors(front: FrontLike) -> list[str]:
    column = plots.ray_column(front)
    low, high = plots.color_range(column)
    return sample_colorscale(list(SEQUENTIAL), ((column.values - low) / (high - low)).tolist())


def _line(lines: Sequence[np.ndarray], color: str, *, width: float) -> dict[str, Any]:
    return {**_coordinates(lines), "mode": "lines", "line": {"color": color, "width": width, "simplify": False}}


def _coordinates(lines: Sequence[np.ndarray]) -> dict[str, list[float | None]]:
    """Convert lines ``[K, 2]`` to the coordinates of one trace, with gaps between lines."""
    x, y = ([v for line in lines for v in [*line[:, axis].tolist(), None]][:-1] for axis in (0, 1))
    return {"x": x, "y": y}


def dress(figure: go.Figure, title: str, subtitle: str) -> go.Figure:
    heading = {"text": title, "subtitle": {"text": subtitle}, "x": 0.02, "y": 1, "yanchor": "top", "pad": {"t": 22}}
    font = {"family": "system-ui, 'Segoe UI', Roboto, 'DejaVu Sans', sans-serif", "size": 14, "color": INK}
    hover = {"bgcolor": PAPER, "bordercolor": MUTED, "font": {**font, "size": 13}, "align": "left"}
    legend = {"orientation": "h", "x": 0, "y": 0, "yref": "container", "yanchor": "bottom"}
    figure.update_layout(template="none", autosize=True, title=heading, font=font, legend=legend, hoverlabel=hover)
    figure.update_layout(paper_bgcolor=PAPER, plot_bgcolor=PAPER, margin={"l": 70, "r": 30, "t": 90, "b": 60})
    figure.update_layout(hovermode="closest", modebar={"remove": ["sendChartToCloud"]})
    figure.update_xaxes(title={"standoff": 8, "font": {"size": 14}}, automargin=True)
    figure.update_yaxes(title={"standoff": 8, "font": {"size": 14}}, automargin=True)
    return figure
