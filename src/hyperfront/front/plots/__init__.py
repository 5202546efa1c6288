"""Pictures of fronts: ``static`` draws them with matplotlib, ``interactive`` with plotly, ``save`` writes them.

Both back ends have the same two functions, ``front(front, kind=...)`` and ``evolution(records, objectives=...)``.
They share the palette, the words and the geometry of this file. A library is imported with its back end only.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import numpy as np
import torch
from torch import Tensor

from hyperfront import indicators, preferences
from hyperfront.errors import HyperfrontError, unknown_name

__all__ = ["save"]

INK, MUTED, PALE, PAPER = "#22262b", "#6b7480", "#dfe3e8", "#ffffff"
BLUE, VERMILION = "#0072b2", "#d55e00"  # of Okabe and Ito: all kinds of color vision distinguish them
SEQUENTIAL = ("#440154", "#414487", "#2a788e", "#22a884", "#7ad151")  # viridis without its end, too pale on white
OBJECTIVES_OF = {"2d": 2, "3d": 3, "ternary": 3, "parallel": None}


class FrontLike(Protocol):
    """The parts of a front that are drawn: ``rays`` and ``losses [R, m]``, each score ``[R]``, and ``truth [K, m]``."""

    @property
    def objectives(self) -> tuple[str, ...]: ...
    @property
    def rays(self) -> Tensor: ...
    @property
    def losses(self) -> Tensor: ...
    @property
    def scores(self) -> Mapping[str, Tensor]: ...
    @property
    def reference(self) -> tuple[float, ...] | None: ...
    @property
    def truth(self) -> Tensor | None: ...
    @property
    def convention(self) -> str: ...
    @property
    def provenance(self) -> Mapping[str, Any]: ...


class RayColumn(NamedTuple):
    """One number per ray: ``role`` is loss, score or empty, ``values`` is ``[R]``."""

    name: str
    role: str
    values: np.ndarray

    @property
    def label(self) -> str:
        return f"{self.name} {self.role}".strip()


class Curve(NamedTuple):
    """One number per record, with the best possible value (NaN if unknown) and its description."""

    name: str
    values: np.ndarray
    best: float
    best_name: str

    @property
    def limits(self) -> tuple[float, float]:
        """Ends of the axis, with room for the name above the line of the best."""
        low, high = ends(np.append(self.values, self.best))
        margin = high - low or 0.1
        return low - 0.05 * margin, high + 0.16 * margin


def save(figure: Any, path: str | Path) -> Path:
    """Write a figure: ``.png``, ``.svg``, ``.pdf`` from matplotlib, ``.html`` that needs no network from plotly."""
    path = Path(path)
    back_ends = {".png": "static", ".svg": "static", ".pdf": "static", ".html": "interactive"}
    drawn_by, written_by = "interactive" if hasattr(figure, "to_html") else "static", back_ends.get(path.suffix.lower())
    if written_by != drawn_by:
        fitting = [suffix for suffix, back_end in back_ends.items() if back_end == drawn_by]
        raise HyperfrontError(
            f"{drawn_by} figures are not written to such files" if written_by else "unknown kind of picture file",
            got=path.name,
            expected="a name that ends in " + ", ".join(fitting if written_by else back_ends),
            fix=f"draw it with hyperfront.front.plots.{written_by}"
            if written_by
            else path.with_suffix(fitting[0]).name,
        )
    path.parent.mkdir(parents=True, exist_ok=True)
    writer = {"static": "static", "interactive": "page"}[drawn_by]
    importlib.import_module(f"hyperfront.front.plots.{writer}").write(figure, path)
    return path


def kind_for(front: FrontLike, kind: str) -> str:
    """Choose the kind to draw; ``auto`` is 2d, 3d or parallel, by the number of objectives."""
    m = len(front.objectives)
    if not len(front.losses):
        raise HyperfrontError(
            "nothing to draw", got="a front without rays", fix="evaluate it at hyperfront.rays(25, m)"
        )
    if kind == "auto":
        return {2: "2d", 3: "3d"}.get(m, "parallel")
    if kind not in OBJECTIVES_OF:
        raise unknown_name("kind of plot", kind, ["auto", *OBJECTIVES_OF])
    if OBJECTIVES_OF[kind] not in (None, m):
        raise HyperfrontError(
            f"a {kind} plot does not fit this front",
            got=f"{m} objectives: {', '.join(front.objectives)}",
            expected=f"{OBJECTIVES_OF[kind]} objectives",
            fix="kind='auto' picks one that fits; kind='parallel' fits all",
        )
    return kind


def headline(front: FrontLike, kind: str) -> tuple[str, str]:
    """Title and subtitle: the content of the figure, and its origin."""
    known = {key: front.provenance.get(key) for key in ("problem", "solver", "split", "seed")}
    title = "Rays of the Pareto front" if kind == "ternary" else "Pareto front"
    title = f"{title} of {known['problem']}" if known["problem"] else title
    parts = [
        f"{len(front.losses)} rays",
        *(f"{key} {known[key]}" for key in ("split", "seed") if known[key] is not None),
    ]
    return f"{title}, {known['solver']}" if known["solver"] else title, ", ".join(parts)


def array(values: Any) -> np.ndarray:
    """Convert tensors of any device, lists and arrays to float64 arrays."""
    return torch.as_tensor(values, dtype=torch.float64).detach().cpu().numpy()


def columns(front: FrontLike) -> list[RayColumn]:
    """List the numbers known for each ray: losses, scores, and the uniformity, whose mean is the front's uniformity."""
    rays, losses = (torch.as_tensor(array(t)) for t in (front.rays, front.losses))
    table = [RayColumn(name, "loss", array(losses[:, j])) for j, name in enumerate(front.objectives)]
    table += [RayColumn(name, "score", array(values)) for name, values in front.scores.items()]
    if "uniformity" not in front.scores:
        by_direction = front.convention == "direction"  # uniformity is defined for inverse rays
        inverse = preferences.convert(rays, "direction", "inverse") if by_direction else rays
        table.append(RayColumn("uniformity", "", array(indicators.uniformity(losses, inverse))))
    return table


def ray_column(front: FrontLike) -> RayColumn:
    """Return the column that colors the points: the first entry of their rays."""
    return RayColumn(f"ray entry of {front.objectives[0]}", "", array(front.rays)[:, 0])


def curves(points: np.ndarray) -> list[np.ndarray]:
    """Divide the points ``[K, 2]`` of a front into connected curves, each in the order of the first objective.

    A gap is a step more than twice as long as those before and after it, and than 3 % of the axes: a curve may be
    sampled unevenly, but its steps change gradually.

    >>> [len(curve) for curve in curves(np.array([[0.0, 9], [1, 8], [2, 7], [7, 2], [8, 1], [9, 0]]))]
    [3, 3]
    """
    points = np.unique(points, axis=0)
    points = points[np.lexsort((-points[:, 1], points[:, 0]))]
    steps = np.linalg.norm(np.diff(points, axis=0) / extent(points), axis=1)
    gap = (steps[1:-1] > 2 * np.maximum(steps[:-2], steps[2:])) & (steps[1:-1] > 0.03)
    return np.split(points, np.flatnonzero(gap) + 2)


def extent(points: np.ndarray) -> np.ndarray:
    """Length of each axis ``[m]`` that holds the points ``[K, m]``, 1 if they are all equal."""
    ranges = np.ptp(points, axis=0)
    return np.where(ranges > 0, ranges, 1.0)


def best_of(losses: np.ndarray) -> np.ndarray:
    """Mask ``[R]`` of the points that no other dominates; the others are drawn hollow."""
    return indicators.nondominated(torch.as_tensor(losses)).numpy()


def joined(losses: np.ndarray, truth: np.ndarray | None) -> list[np.ndarray]:
    """Join the non-dominated points of ``losses [R, 2]`` to curves, one for each curve of the truth."""
    best = losses[best_of(losses) & np.isfinite(losses).all(axis=1)]
    best = best[np.lexsort((-best[:, 1], best[:, 0]))]
    if truth is None or not len(best):
        return [best]
    parts = curves(truth)
    owner = np.repeat(np.arange(len(parts)), [len(part) for part in parts])
    apart = (best[:, None] - np.concatenate(parts)[None]) / extent(truth)  # [R, K, 2]
    nearest = np.linalg.norm(apart, axis=-1).argmin(axis=1)
    return np.split(best, np.flatnonzero(np.diff(owner[nearest])) + 1)


def half_lines(rays: np.ndarray, convention: str, *, upper: np.ndarray) -> np.ndarray:
    """The rays ``[R, 2]`` in loss space from the origin to the edges ``upper [2]`` of the axes, ``[R, 2 ends, 2]``.

    ``l_j = t / r_j`` for the convention ``inverse``, ``l = t r`` for ``direction``; weights have no lines.

    >>> half_lines(np.array([[0.8, 0.2]]), "inverse", upper=np.array([1.0, 1.0]))[0, 1]
    array([0.25, 1.  ])
    """
    if convention not in ("inverse", "direction"):
        return np.empty((0, 2, 2))
    towards = rays[:, ::-1] if convention == "inverse" else rays  # 1 / r is parallel to (r_2, r_1)
    reach = np.divide(upper, towards, out=np.full_like(towards, np.inf), where=towards > 0).min(axis=1).clip(min=0)
    return np.stack([np.zeros_like(towards), towards * reach[:, None]], axis=1)


def limits(fronts: Sequence[np.ndarray], truth: Any, reference: Any) -> tuple[np.ndarray, np.ndarray]:
    """Ends of the axes ``[2], [2]``: they hold all points, origin and reference too unless they are far away."""
    points = np.vstack([*fronts, *([] if truth is None else [array(truth)])])
    points = points[np.isfinite(points).all(axis=1)]
    low, high = (points.min(axis=0), points.max(axis=0)) if len(points) else np.array([[0.0, 0.0], [1.0, 1.0]])
    span = np.where(high > low, high - low, np.maximum(np.abs(high), 1e-12))
    if (low >= 0).all() and (low <= span).all():
        low = np.zeros_like(low)
    if reference is not None:
        low = np.minimum(low, array(reference))  # a bad front may lie beyond the reference
        if (array(reference) <= high + 0.6 * span).all():
            high = np.maximum(high, array(reference))
    margin = 0.04 * np.maximum(high - low, span)
    return low - margin, high + margin


def reference_label(reference: Sequence[float], upper: np.ndarray) -> str:
    """The name of the reference point in a legend; a point beyond the axes is marked at their edge."""
    beyond = ", beyond the axes" if (array(reference) > upper).any() else ""
    return f"reference ({', '.join(f'{value:.4g}' for value in reference)}){beyond}"


def evenly_spaced(records: Sequence[Mapping[str, Any]], most: int) -> list[Mapping[str, Any]]:
    """Keep at most ``most`` of the records, evenly spaced, with the first and the last."""
    if not records:
        raise HyperfrontError("nothing to draw", got="no records", expected="one for each epoch that was evaluated")
    return [records[i] for i in np.unique(np.linspace(0, len(records) - 1, most).round().astype(int))]


def history(records: Sequence[Mapping[str, Any]], truth: Any, reference: Any) -> list[Curve]:
    """Hypervolume and uniformity over the records; a value that a record lacks is NaN.

    The best hypervolume of two objectives is that of as many points of the true front as the front has: more points
    dominate more. Beyond two, points of a surface cannot be thinned as evenly, so none is given.
    """
    best, count = float("nan"), 0
    if truth is not None and reference is not None and truth.shape[1] == 2:
        count = min(len(truth), max(len(record["losses"]) for record in records))
        best = indicators.hypervolume(truth[torch.linspace(0, len(truth) - 1, count).round().long()], reference)
    known = {key: np.array([r.get(key) for r in records], float) for key in ("hypervolume", "uniformity")}
    return [
        Curve("hypervolume", known["hypervolume"], best, f"true front at {count} points"),
        Curve("uniformity", known["uniformity"], 1.0, "all rays exact"),
    ]


def ends(values: np.ndarray) -> tuple[float, float]:
    """The least and the greatest value, made equal if they differ by rounding only."""
    finite = values[np.isfinite(values)] if np.isfinite(values).any() else np.zeros(1)
    low, high = float(finite.min()), float(finite.max())
    return (low, high) if high - low > 1e-9 * max(abs(low), abs(high)) else (high, high)


def color_range(column: RayColumn) -> tuple[float, float]:
    """The values at the ends of the color scale, never equal; the scale of uniformity ends at 1, the best value."""
    low, high = ends(column.values)
    if column.name == "uniformity":
        return min(low, 0.99), 1.0
    return (low, high) if high > low else (low, low + 1)


def parallel_lines(values: np.ndarray, spans: Sequence[tuple[float, float]]) -> list[np.ndarray]:
    """Make ``R`` lines of values ``[R, A]`` on ``A`` parallel axes, each scaled from its span to heights 0 to 1."""
    low, high = np.array(spans).T
    heights = np.where(high > low, (values - low) / np.where(high > low, high - low, 1), 0.5)
    return [np.column_stack([np.arange(len(spans)), row]) for row in heights]


def parallel_ticks(low: float, high: float) -> list[tuple[float, str]]:
    """Heights and labels of the ticks of one parallel axis."""
    heights = (0.0, 0.5, 1.0) if high > low else (0.5,)
    return [(height, f"{low + height * (high - low):.4g}") for height in heights]
