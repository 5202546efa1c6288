"""The front: losses reached at rays, their quality, and the selection of an operating point.

A front measured by :func:`evaluate` keeps its evaluator, so that :meth:`Front.select` can measure between the sampled
rays. A front loaded from a file selects among its own points, and warns about that.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from hyperfront import indicators, preferences
from hyperfront.errors import ProblemError, shown
from hyperfront.errors.signatures import checked
from hyperfront.errors.tables import as_table
from hyperfront.front import question as questions
from hyperfront.front import selection
from hyperfront.front.origin import Origin
from hyperfront.front.question import Limit
from hyperfront.front.selection import Selection
from hyperfront.model import check_objectives
from hyperfront.preferences import Convention
from hyperfront.problem import Meaning
from hyperfront.storage import files

ROUNDING = 1e-5
"""Losses below zero by this share of the largest are zero."""


@checked
@dataclass(frozen=True, eq=False, repr=False)
class Front:
    """Losses ``[R, m]`` and scores ``[R]`` at rays ``[R, m]``, in float64 on the CPU."""

    objectives: tuple[str, ...]
    rays: Tensor
    losses: Tensor
    scores: Mapping[str, Tensor] = field(default_factory=dict)
    reference: tuple[float, ...] | None = None
    truth: Tensor | None = None
    """Points of the true front ``[K, m]``, where it is known."""
    convention: Convention = "inverse"
    provenance: Mapping[str, Any] = field(default_factory=dict)
    evaluator: Callable[[Tensor], Front] | None = field(default=None, repr=False)
    origin: Origin | None = field(default=None, repr=False)
    """The model and the split behind the front, if it has rows that can certify limits."""
    meanings: Mapping[str, Meaning] = field(default_factory=dict)
    """Label, unit, direction and bounds of every loss and score. Less of a loss is better; a score without a given
    meaning has an unknown direction."""

    def __post_init__(self) -> None:
        self._check_shapes()
        unknown = {name: Meaning(name) for name in self.objectives}
        unknown |= {name: Meaning(name, maximize=None) for name in self.scores}
        complete = {name: self.meanings.get(name, meaning) for name, meaning in unknown.items()}
        object.__setattr__(self, "meanings", complete)

    def __len__(self) -> int:
        return len(self.rays)

    def __repr__(self) -> str:
        least = "from " if len(self) > 1 else ""
        best = ", ".join(f"{name} {least}{column.min().item():.4g}" for name, column in self.columns().items())
        return f"Front at {len(self)} ray{'s' * (len(self) != 1)}: {best}"

    def _repr_html_(self) -> str:
        """Show a picture, the quality and some of the points in a notebook."""
        from hyperfront.front import notebook  # needs matplotlib

        return notebook.html(self)

    # ---- quality ---------------------------------------------------------------------------------------------

    @checked
    def hypervolume(self, reference: Sequence[float] | None = None) -> float:
        """Compute the volume dominated by the front, up to the reference point (default: the problem's)."""
        if not len(self):
            raise ProblemError("there is no hypervolume without points", got="a front without rays")
        point = self.reference
        if reference is not None:
            point = tuple(as_table("the numbers of the reference", reference, 1, error=ProblemError).tolist())
        if point is None:
            worst = [f"{value:.3g}" for value in self.losses.amax(0).tolist()]
            raise ProblemError(
                "the hypervolume needs a reference point, and the problem has none",
                fix=f"front.hypervolume(reference=...) with numbers above the worst losses, ({', '.join(worst)})",
            )
        volume = indicators.hypervolume(self.losses, point)
        if not (self.losses < torch.tensor(point, dtype=torch.float64)).all(-1).any():
            best = dict(zip(self.objectives, (float(f"{value:.4g}") for value in self.losses.amin(0).tolist())))
            raise ProblemError(
                "no point of the front is better than the reference point in all objectives",
                got=f"reference {point}, smallest losses {best}",
                expected="a reference point that is worse than some points in all objectives",
            )
        return volume

    @checked
    def uniformity(self, base: float = math.e) -> float:
        """Mean over the rays of ``1 - KL(r l / sum r l || 1/m)``, with the logarithm to ``base``.

        Rays of the convention ``direction`` are inverted first; loss weights are not changed, as in the paper.
        It is NaN, not defined, where a loss is negative by more than rounding: shares of losses need ``ideal=``.
        """
        if not len(self):
            raise ProblemError("there is no uniformity without points", got="a front without rays")
        losses, largest = self.losses, self.losses.abs().amax(0)
        if (losses < -ROUNDING * largest).any():
            return math.nan
        direction = self.convention == "direction"
        rays = preferences.convert(self.rays, "direction", "inverse") if direction else self.rays
        return float(indicators.uniformity(losses.clamp_min(0), rays, base=base).mean())

    def nondominated_share(self) -> float:
        """Share of the points that no other point dominates; copies of a point are counted once."""
        return indicators.nondominated_share(self.losses)

    # ---- choosing an operating point -------------------------------------------------------------------------

    def select(
        self,
        *,
        minimize: str | None = None,
        maximize: str | None = None,
        subject_to: Mapping[str, Limit] | None = None,
        confidence: float | None = None,
        future_rows: int | None = None,
        rounds: int = 8,
    ) -> Selection:
        """Find the ray that minimizes or maximizes a loss or score within limits on others.

        A limit is a number, which a loss or score may not exceed if less of it is better and must reach if more is, or
        a pair with its own direction such as ``(">=", 0.9)``. The search starts at the sampled points and continues on
        the whole continuous front (:mod:`hyperfront.front.search`); the answer is never worse than the best point.

        With ``confidence=.95`` the limits hold for the population that the rows were drawn from, with probability at
        least .95 over the rows of ``problem.calibration`` (:mod:`hyperfront.front.certification`); with ``future_rows``
        they hold for the values on that many new rows. Limits that cannot be certified are an error with the smallest
        limits that can.

        >>> rays = preferences.das_dennis(2, 4)
        >>> front = Front(("a", "b"), rays, rays, evaluator=lambda more: Front(("a", "b"), more, more))
        >>> round(front.select(minimize="a", subject_to={"b": 0.6}).values["a"], 4)
        0.4
        """
        question = questions.read(minimize, maximize, subject_to, self.meanings)
        return selection.select(self, question, confidence=confidence, future_rows=future_rows, rounds=rounds)

    def columns(self) -> dict[str, Tensor]:
        """Losses and scores by name, ``[R]`` each."""
        return dict(zip(self.objectives, self.losses.T)) | dict(self.scores)

    # ---- pictures and files ----------------------------------------------------------------------------------

    @checked
    def plot(
        self,
        path: str | Path | None = None,
        *,
        kind: str = "auto",
        x: str | None = None,
        y: str | None = None,
        z: str | None = None,
        beside: Any = None,
    ) -> Any:
        """Draw the front as a matplotlib figure, or write it to ``path`` (.png, .svg, .pdf, or .html to explore).

        With ``x`` and ``y`` (and ``z``), the names of losses or scores, these are drawn against each other. ``beside``
        has other points: a CSV file whose columns have such names, another front, its file, numbers by name, or a
        mapping from words to these, such as ``front.plot(x="fpr_gap", y="error", beside={"fairlearn": "points.csv"})``.

        The figure shows itself as the value of a notebook's cell, with and without ``%matplotlib``.
        """
        from hyperfront.front import drawing, plots  # imported here, since only drawing needs matplotlib and plotly

        interactive = path is not None and Path(path).suffix.lower() == ".html"
        if x is not None or y is not None or z is not None or beside is not None:
            figure = drawing.measures(self, kind, [x, y] + ([] if z is None else [z]), beside, interactive)
        elif interactive:
            from hyperfront.front.plots import interactive as backend

            figure = backend.front(self, kind=kind)
        else:
            from hyperfront.front.plots import static as backend

            figure = backend.front(self, kind=kind)
        if path is not None:
            plots.save(figure, path)
        return figure

    @checked
    def save(self, path: str | Path) -> None:
        """Write JSON, or CSV with rays, losses and scores only; the suffix of ``path`` decides."""
        from hyperfront.front import documents

        documents.write(self, files.as_path(path))

    def document(self) -> dict[str, Any]:
        """The front as a JSON document, as :meth:`load` reads it."""
        from hyperfront.front import documents

        return documents.document(self)

    @classmethod
    @checked
    def load(cls, path: str | Path) -> Front:
        """Read a front from the JSON that :meth:`save` wrote."""
        from hyperfront.front import documents

        return documents.read(Path(path), cls)

    def _check_shapes(self) -> None:
        """Raise an error unless rays, losses, scores and objectives fit together."""
        check_objectives(self.objectives)
        shape = (*self.rays.shape[:1], len(self.objectives))
        tables = {"rays": self.rays, "losses": self.losses}
        wrong = {name: table for name, table in tables.items() if table.shape != shape or not table.is_floating_point()}
        wrong |= {name: values for name, values in self.scores.items() if values.shape != shape[:1]}
        if self.truth is not None and self.truth.shape[1:] != shape[1:]:
            wrong["truth"] = self.truth
        for name, table in wrong.items():
            raise ProblemError(
                f"{name} of the front have the wrong shape or type",
                got=f"{list(table.shape)} of {table.dtype}",
                expected="rays and losses [R, m], scores [R], truth [K, m], floating-point numbers",
            )
        if self.reference is not None and len(self.reference) != len(self.objectives):
            raise ProblemError("the reference point does not fit the objectives", got=shown(self.reference))
        if twice := {*self.objectives} & {*self.scores}:
            raise ProblemError("a score has the name of a loss", got=", ".join(twice))
