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
    """What is different for one model per ray (:mod:`hyperfront.comparison.baselines`), such as the learning rate."""

    def changed(
        self, *, model: Mapping[str, Any] | None = None, arguments: Mapping[str, Any] | None = None, **settings: Any
    ) -> Recipe:
        """The recipe with other settings. None leaves a setting as it is; options of the model and arguments of the
        problem are added to those that the recipe has.

        >>> Recipe(lr=0.1, model={"hidden": 3}).changed(lr=None, epochs=5, model={"layers": 2}).model
        {'hidden': 3, 'layers': 2}
        """
        given = {name: value for name, value in settings.items() if value is not None}
        parts = {"model": {**self.model, **(model or {})}, "arguments": {**self.arguments, **(arguments or {})}}
        return replace(self, **parts, **given)

    def training(self) -> dict[str, Any]:
        """The arguments of :func:`hyperfront.fit` that every method has."""
        return {
            key: getattr(self, key) for key in ("epochs", "batch_size", "lr", "schedule", "warmup", "validate_every")
        }

    def hypernetwork(self, solver: Solver) -> dict[str, Any]:
        """Those, and the ones that a hypernetwork has beside them."""
        return self.training() | {
            "solver": solver,
            "preferences": Dirichlet(self.alpha),
            "rays_per_step": self.rays_per_step,
            "align": self.align and solver.convention == "inverse",
        }

    def for_separate_models(self) -> Recipe:
        """The recipe for one model per ray: no hypernetwork, and as many passes over the data, in batches as large as
        the part of a batch that each ray of a step has here."""
        batch = max(1, self.batch_size // self.rays_per_step)
        return replace(self, **{"batch_size": batch, "model": {}, **self.separate})
