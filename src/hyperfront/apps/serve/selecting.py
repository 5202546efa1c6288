"""The operating point that a client asks for, searched with a copy of the model where the server has data."""

from __future__ import annotations

import copy
import threading
from dataclasses import replace
from typing import Any, final

from hyperfront.apps.shared.choice import Choice
from hyperfront.apps.shared.refusal import Refusal
from hyperfront.errors import DataError, ProblemError
from hyperfront.front import Front, evaluate
from hyperfront.front.intervals import interval_document
from hyperfront.model import ParetoModel
from hyperfront.preferences import layout
from hyperfront.problem import Problem

ROUNDS = 8
"""Rounds of each of three searches; a fixed number, so that an answer does not depend on the load of the machine."""
GRID = 25
"""Rays measured at the first request, if the run has no front."""


@final
class Selector:
    """Answers one choice after the other. The data are loaded when the first one comes."""

    def __init__(self, model: ParetoModel, problem: Problem | None, stored: Front | None):
        self.model, self.problem, self.stored = model, problem, stored
        self._lock = threading.Lock()
        self._front: Front | None = None
        self._intervals: list[dict[str, Any]] | None = None

    def __call__(self, choice: Choice) -> dict[str, Any]:
        """The operating point as JSON: its ray, with the losses, scores and intervals there."""
        with self._lock:
            if self._front is None:
                self._front = self._open()
            found = choice.select(self._front, rounds=ROUNDS).document()
            uncertain = self._uncertain(self._front, found["ray"])
        values = found.pop("values")
        return found | {
            "losses": {name: values[name] for name in self._front.objectives},
            "scores": {name: values[name] for name in self._front.scores},
            "uncertainty": uncertain,
        }

    def intervals(self) -> list[dict[str, Any]]:
        """The intervals at all rays of the front, with the bootstrap for gaps; they are computed once."""
        with self._lock:
            if self._front is None:
                self._front = self._open()
            if self._intervals is None:
                self._intervals = [
                    self._uncertain(self._front, ray, exact_gaps=False) for ray in self._front.rays.tolist()
                ]
            return self._intervals

    def _uncertain(self, front: Front, ray: list[float], **options: Any) -> dict[str, Any]:
        if front.origin is None:
            return {"reason": "the server has no rows to measure with"}
        return interval_document(front.origin.model, front.origin.split, ray, **options)

    def _open(self) -> Front:
        """The front with a model that measures between its points, or the stored front without one."""
        measured = None if self.problem is None else self._measured(self.problem)
        front = measured or self.stored
        if front is None:
            raise Refusal("the run has no front", fix="serve the folder of a run with validation data", status=404)
        return front

    def _measured(self, problem: Problem) -> Front | None:
        model, stored = copy.deepcopy(self.model), self.stored
        rays = stored.rays if stored else layout(GRID, model.m, model.objectives)
        try:
            split = problem.val
            first = evaluate(model, split, rays[:1])
        except (DataError, ProblemError):  # no validation data here
            return None
        if stored is None or {*stored.scores} != {*first.scores}:
            return evaluate(model, split, rays)
        return replace(first, rays=stored.rays, losses=stored.losses, scores=stored.scores)
