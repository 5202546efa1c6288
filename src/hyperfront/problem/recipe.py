"""Settings that train a problem well: the presets of built-in problems."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from hyperfront.preferences import Dirichlet
from hyperfront.solvers import Solver


@dataclass(frozen=True)
class Recipe:
    """Settings for training a Pareto hypernetwork on a built-in problem."""

    epochs: int = 30
    """Passes over the data; an epoch of an analytic problem has 100 steps."""
    rays_per_step: int = 1
    batch_size: int = 256
    lr: float = 1e-3
    schedule: str = "cosine"
    warmup: int = 0
    alpha: float = 0.2
    """Rays are drawn from Dirichlet(alpha)."""
    align: bool = False
    """Whether rays are aligned on the validation data (:func:`hyperfront.align`), if the solver balances losses."""
    evaluation_rays: int = 25
    validate_every: int = 1
    model: Mapping[str, Any] = field(default_factory=dict)
    """Options of :func:`hyperfront.wrap`: the hypernetwork and its size."""
    arguments: Mapping[str, Any] = field(default_factory=dict)
    """Arguments of the problem, where they differ from its defaults."""
    separate: Mapping[str, Any] = field(default_factory=dict)
    """Settings that differ for one model per ray (:mod:`hyperfront.comparison.baselines`), such as ``lr``."""

    def changed(
        self, *, model: Mapping[str, Any] | None = None, arguments: Mapping[str, Any] | None = None, **settings: Any
    ) -> Recipe:
        """Return the recipe with other settings. None leaves a setting unchanged; options of the model and arguments of
        the problem extend the recipe's.

        >>> Recipe(lr=0.1, model={"hidden": 3}).changed(lr=None, epochs=5, model={"layers": 2}).model
        {'hidden': 3, 'layers': 2}
        """
        given = {name: value for name, value in settings.items() if value is not None}
        parts = {"model": {**self.model, **(model or {})}, "arguments": {**self.arguments, **(arguments or {})}}
        return replace(self, **parts, **given)

    def training(self) -> dict[str, Any]:
        """Arguments of :func:`hyperfront.fit` for every method."""
        return {
            key: getattr(self, key) for key in ("epochs", "batch_size", "lr", "schedule", "warmup", "validate_every")
        }

    def hypernetwork(self, solver: Solver) -> dict[str, Any]:
        """Arguments of :func:`hyperfront.fit` for a hypernetwork."""
        return self.training() | {
            "solver": solver,
            "preferences": Dirichlet(self.alpha),
            "rays_per_step": self.rays_per_step,
            "align": self.align and solver.convention == "inverse",
        }

    def for_separate_models(self) -> Recipe:
        """Return the recipe for one model per ray: no hypernetwork, and equally many passes over the data. A batch is
        as large as the share of one ray in a batch of the hypernetwork."""
        batch = max(1, self.batch_size // self.rays_per_step)
        return replace(self, **{"batch_size": batch, "model": {}, **self.separate})
