"""Fronts for paper: matplotlib figures, made without pyplot and its global state."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from pathlib import Path
from textwrap import fill
from typing import Any

import numpy as np
from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.collections import LineCollection
from matplotlib.colors import LinearSegmentedColormap, Normalize
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from PIL import Image
from torch import Tensor

from hyperfront.front import plots
from hyperfront.front.plots import BLUE, INK, MUTED, PALE, PAPER, VERMILION, FrontLike

COLORMAP = LinearSegmentedColormap.from_list("hyperfront", plots.SEQUENTIAL)
STYLE = {
    "font.size": 10,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.edgecolor": MUTED,
    "axes.labelcolor": INK,
    "axes.axisbelow": True,
    "text.color": INK,
    "xtick.color": MUTED,
    "ytick.color": MUTED,
    "xtick.labelcolor": INK,
    "ytick.labelcolor": INK,
    "grid.color": PALE,
    "grid.linewidth": 0.6,
    "legend.frameon": False,
    "figure.facecolor": PAPER,
    "pdf.fonttype": 42,  # text stays text, as journals require
    "text.parse_math": False,  # a dollar sign in a name is a dollar sign
    "svg.hashsalt": "hyperfront",  # the same figure is the same file
}


def front(front: FrontLike, *, kind: str = "auto") -> Figure:
    """Draw the front as a ``2d``, ``3d``, ``ternary`` or ``parallel`` plot; ``auto`` chooses by the objectives.

    Points are colored by the first entry of their ray; ``ternary`` colors the rays by losses and uniformity instead.
    """
    kind = plots.kind_for(front, kind)
    with rc_context(STYLE):
        figure = {"2d": _plane, "3d": _space, "ternary": _ternary, "parallel": _parallel}[kind](front)
        title, subtitle = plots.headline(front, kind)
        figure.suptitle(f"{title}\n{subtitle}", fontsize=11)
    return figure


def evolution(
    records: Sequence[Mapping[str, Any]],
    *,
    objectives: Sequence[str],
    truth: Tensor | None = None,
    reference: Sequence[float] | None = None,
) -> Figure:
    """Draw the front during training: up to eight fronts (for two objectives), hypervolume and uniformity over epochs.

    ``records`` hold ``epoch``, ``losses [R, m]``, ``hypervolume`` and ``uniformity``; ``truth [K, m]``. The points of
    a front are joined in the order of their rays.
    """
    shown, epochs = plots.evenly_spaced(records, 8), [record["epoch"] for record in records]
    plane = len(objectives) == 2
    with rc_context(STYLE):
        figure = Picture(figsize=(9, 4.8 if plane else 3.6), layout="constrained")
        grid = figure.add_gridspec(2, 2, width_ratios=(1.5, 1)) if plane else figure.add_gridspec(1, 2)
        if plane:
            _fronts_over_epochs(figure, grid[:, 0], shown, objectives=objectives, truth=truth, reference=reference)
        for index, curve in enumerate(plots.history(records, truth, reference)):
            axes = figure.add_subplot(grid[(index, 1) if plane else (0, index)])
            axes.plot(epochs, curve.values, color=BLUE, linewidth=1.5, marker="o", markersize=3)
            if np.isfinite(curve.best):
                axes.axhline(curve.best, color=MUTED, linewidth=1, linestyle="--")
                axes.annotate(
                    curve.best_name, (0.02, curve.best), (0, 2), xycoords=("axes fraction", "data"),
                    textcoords="offset points", va="bottom", fontsize=9, color=MUTED
                )  # fmt: skip
            axes.set(xlabel="epoch", ylabel=curve.name, ylim=curve.limits)
            axes.grid(True)
        figure.suptitle(f"Front of {', '.join(objectives)} over epochs {epochs[0]} to {epochs[-1]}", fontsize=11)
    return figure


class Picture(Figure):
    """A figure that shows itself as the value of a notebook's cell, also without pyplot and ``%matplotlib``."""

    def _repr_png_(self) -> tuple[bytes, dict[str, int]]:
        width, height = (self.get_size_inches() * self.get_dpi()).round().astype(int).tolist()
        return png(self, dpi=2 * self.get_dpi()), {"width": width, "height": height}


def png(figure: Figure, *, dpi: float) -> bytes:
    """Encode the figure as a PNG file of 256 colors, which takes a third of the space in a notebook."""
    drawn, file = io.BytesIO(), io.BytesIO()
    with rc_context(STYLE):
        figure.savefig(drawn, format="png", dpi=dpi)
    few = Image.open(drawn).convert("RGB").quantize(256, method=Image.Quantize.MAXCOVERAGE)
    few.save(file, format="PNG", optimize=True)
    return file.getvalue()


def write(figure: Figure, path: Path) -> None:
    """Write PNG (200 dpi), SVG or PDF, without dates: the same figure gives the same bytes."""
    dates = {".svg": {"Date": None}, ".pdf": {"CreationDate": None}, ".png": {}}
    with rc_context(STYLE):
        figure.savefig(path, dpi=200, metadata=dates[path.suffix.lower()])


def _plane(front: FrontLike) -> Figure:
    rays, losses = plots.array(front.rays), plots.array(front.losses)
    low, high = plots.limits([losses], front.truth, front.reference)
    figure = Picture(figsize=(6.4, 5.2), layout="constrained")
    axes = figure.add_subplot()
    axes.set(xlim=(low[0], high[0]), ylim=(low[1], high[1]), xlabel=front.objectives[0], ylabel=front.objectives[1])
    axes.grid(True)
    color = _ray_colors(front)
    lines = plots.half_lines(rays, front.convention, upper=high)
    faint = LineCollection(list(lines), colors=list(color.to_rgba(rays[: len(lines), 0])), linewidths=0.7, alpha=0.45)
    axes.add_collection(faint, autolim=False)
    _truth(axes, front.truth)
    for curve in plots.joined(losses, None if front.truth is None else plots.array(front.truth)):
        axes.plot(*curve.T, color=INK, linewidth=0.8)
    _points(axes, front, size=30)
    _reference(axes, front.reference, high)
    rule = {"inverse": "rays, equal $r_j l_j$", "direction": "rays, losses parallel to $r$"}.get(front.convention)
    dots = dot("front", color=INK, linestyle="-", linewidth=0.8, markerfacecolor=COLORMAP(0.5))
    ray = Line2D([], [], color=COLORMAP(0.5), linewidth=0.7, label=rule)
    handles = [dots, *_hollow(losses), *([ray] if rule else []), *axes.get_legend_handles_labels()[0]]
    for text in figure.legend(handles=handles, loc="outside lower center", ncols=2).get_texts():
        text.set_parse_math(text.get_text() == rule)
    figure.colorbar(color, ax=axes, label=plots.ray_column(front).label, fraction=0.05, pad=0.02)
    return figure


def _space(front: FrontLike) -> Figure:
    figure = Picture(figsize=(6.4, 5.4))
    axes: Any = figure.add_axes((0.04, 0.08, 0.78, 0.83), projection="3d")  # Any: Axes3D has no type stubs
    handles = [dot("front"), *_hollow(plots.array(front.losses))]
    if front.truth is not None:
        axes.scatter(*plots.array(front.truth).T, s=6, color=MUTED, alpha=0.15, linewidths=0, depthshade=False)
        handles.append(dot("true front", color=MUTED, markeredgewidth=0))
    _points(axes, front, size=26)
    for axis, name in zip((axes.xaxis, axes.yaxis, axes.zaxis), front.objectives):
        axis.set_label_text(fill(name, 20))
        axis.labelpad = 9 + 6 * (len(name) > 20)
        axis.set_pane_color(PAPER)
    axes.locator_params(nbins=5)
    axes.view_init(elev=25, azim=40)
    axes.set_box_aspect((1, 1, 0.9), zoom=0.92)
    place = figure.add_axes((0.84, 0.2, 0.03, 0.56))
    figure.colorbar(_ray_colors(front), cax=place, label=plots.ray_column(front).label)
    figure.legend(handles=handles, loc="lower center", ncols=3)
    return figure


def _ternary(front: FrontLike) -> Figure:
    corners = np.array([[0.5, 0.75**0.5], [0.0, 0.0], [1.0, 0.0]])
    where = plots.array(front.rays) @ corners
    shown = [column for column in plots.columns(front) if column.role == "loss" or column.name == "uniformity"]
    figure = Picture(figsize=(8, 6.2), layout="constrained")
    for axes, column in zip(np.ravel(figure.subplots(2, 2)), shown):
        axes.set_aspect("equal")
        axes.axis("off")
        axes.set(xlim=(-0.1, 1.1), ylim=(-0.1, 0.98))
        for level in (0.25, 0.5, 0.75):
            ends = level * corners + (1 - level) * np.roll(corners, 1, axis=0)
            others = level * corners + (1 - level) * np.roll(corners, -1, axis=0)
            for start, end in zip(ends, others):
                axes.plot(*np.stack([start, end]).T, color=PALE, linewidth=0.6)
        axes.plot(*corners[[0, 1, 2, 0]].T, color=MUTED, linewidth=1)
        low, high = plots.color_range(column)
        dots = axes.scatter(*where.T, c=column.values, cmap=COLORMAP, vmin=low, vmax=high, s=36, zorder=3)
        for corner, name, side in zip(corners, front.objectives, ("bottom", "top", "top")):
            shift = (0, 6 if side == "bottom" else -6)
            axes.annotate(fill(name, 12), corner, shift, textcoords="offset points", ha="center", va=side)
        figure.colorbar(dots, ax=axes, label=column.label, shrink=0.7)
    return figure


def _parallel(front: FrontLike) -> Figure:
    table = plots.columns(front)
    figure = Picture(figsize=(max(6.4, 1.4 * len(table) + 1.5), 4.6), layout="constrained")
    axes = figure.add_subplot()
    spans = [plots.ends(column.values) for column in table]
    lines = plots.parallel_lines(np.stack([column.values for column in table], axis=1), spans)
    color = _ray_colors(front)
    axes.add_collection(LineCollection(lines, colors=list(color.to_rgba(plots.array(front.rays)[:, 0])), alpha=0.75))
    box = {"boxstyle": "square,pad=0.1", "facecolor": PAPER, "edgecolor": "none", "alpha": 0.75}
    for place, span in enumerate(spans):
        axes.axvline(place, color=MUTED, linewidth=0.8)
        for height, label in plots.parallel_ticks(*span):
            where = {"xytext": (4, 0), "textcoords": "offset points", "va": "center"}
            axes.annotate(label, (place, height), fontsize=8, bbox=box, **where)
    axes.set_xticks(range(len(table)), [fill(column.label, 14) for column in table])
    axes.set(xlim=(-0.15, len(table) - 0.6), ylim=(-0.04, 1.04), yticks=[])
    axes.spines[:].set_visible(False)
    axes.tick_params(length=0)
    figure.colorbar(color, ax=axes, label=plots.ray_column(front).label, fraction=0.03, pad=0.02)
    return figure


def _fronts_over_epochs(
    figure: Figure, place: Any, records: Sequence[Mapping[str, Any]], *, objectives: Any, truth: Any, reference: Any
) -> None:
    losses, epochs = [plots.array(record["losses"]) for record in records], [record["epoch"] for record in records]
    low, high = plots.limits(losses, truth, reference)
    color = ScalarMappable(Normalize(epochs[0], max(epochs[-1], epochs[0] + 1)), COLORMAP)
    axes = figure.add_subplot(place)
    axes.set(xlim=(low[0], high[0]), ylim=(low[1], high[1]), xlabel=objectives[0], ylabel=objectives[1])
    axes.grid(True)
    _truth(axes, truth)
    for epoch, values in zip(epochs, losses):
        axes.plot(*values.T, color=color.to_rgba(epoch), linewidth=1, marker="o", markersize=3.5)
    _reference(axes, reference, high)
    figure.colorbar(color, ax=axes, label="epoch", fraction=0.05, pad=0.02)
    if handles := axes.get_legend_handles_labels()[0]:
        figure.legend(handles=handles, loc="outside lower left", ncols=2)


def _points(axes: Any, front: FrontLike, *, size: float) -> None:
    losses, best = plots.array(front.losses), plots.best_of(plots.array(front.losses))
    known = np.isfinite(losses).all(axis=1)  # Axes3D drops the other points, but not their colors
    losses, edges = losses[known], _ray_colors(front).to_rgba(plots.array(front.rays)[known, 0])
    faces = np.where(best[known, None], edges, 1.0)
    options = {"depthshade": False} if losses.shape[1] == 3 else {"zorder": 4}
    axes.scatter(*losses.T, s=size, facecolors=faces, edgecolors=edges, linewidths=1.2, **options)


def dot(label: str, **look: Any) -> Line2D:
    plain: dict[str, Any] = {"linestyle": "", "marker": "o", "markersize": 5, "color": COLORMAP(0.5)}
    return Line2D([], [], label=label, **{**plain, **look})


def _hollow(losses: np.ndarray) -> list[Line2D]:
    return [] if plots.best_of(losses).all() else [dot("dominated", markerfacecolor=PAPER)]


def _truth(axes: Axes, truth: Any) -> None:
    for index, curve in enumerate([] if truth is None else plots.curves(plots.array(truth))):
        axes.plot(*curve.T, color=MUTED, linewidth=3, alpha=0.45, label=None if index else "true front")


def _reference(axes: Axes, reference: Sequence[float] | None, upper: np.ndarray) -> None:
    if reference is not None:
        inside, place = (plots.array(reference) <= upper).all(), np.minimum(plots.array(reference), upper)
        look = {"color": VERMILION, "marker": "X", "markersize": 8, "markerfacecolor": VERMILION if inside else PAPER}
        label = plots.reference_label(reference, upper)
        axes.plot(*place, linestyle="", clip_on=False, zorder=5, label=label, **look)


def _ray_colors(front: FrontLike) -> ScalarMappable:
    return ScalarMappable(Normalize(*plots.color_range(plots.ray_column(front))), COLORMAP)
