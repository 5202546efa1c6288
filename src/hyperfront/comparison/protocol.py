"""The protocol of a comparison: the recipe, rays and settings by which all its methods are trained and measured."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import Any

from torch import Tensor

from hyperfront.comparison.methods import find_method
from hyperfront.comparison.result import rounded
from hyperfront.errors import unknown_name
from hyperfront.problem import Problem
from hyperfront.problem.recipe import Recipe
from hyperfront.storage.provenance import describe
from hyperfront.training.engines import ENGINES
from hyperfront.training.fitting import settings_of


@dataclass(frozen=True)
class Protocol:
    """The settings that all methods of a comparison share."""

    preset: str
    recipe: Recipe
    rays: Tensor
    """``[R, m]``, in the convention ``inverse``."""
    tuned: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """Tuned settings by method, which replace settings of the recipe."""
    solver: Mapping[str, Any] = field(default_factory=dict)
    """Options of the solver of hypernetworks."""
    options: Mapping[str, Any] = field(default_factory=dict)
    """Settings that one method alone has, by method: instances of its :attr:`Method.options`."""
    one_by_one: bool = False
    """Train the models of methods with one model per ray one after the other, instead of all at once."""
    device: str = "cpu"
    engine: str = "auto"

    def recipe_of(self, name: str) -> Recipe:
        """The recipe that a method trains by."""
        method = find_method(name)
        return with_settings(method.recipe(self.recipe), self.tuned.get(method.trained_as, {}))

    def options_of(self, name: str) -> Any:
        """The settings that a method alone has: the given ones, or the defaults."""
        method = find_method(name)
        return self.options.get(name) or (method.options() if method.options else None)

    def check(self, name: str, problem: Problem) -> None:
        """Raise an error for a method that cannot be trained on the problem by these settings."""
        if self.engine not in ENGINES:
            raise unknown_name("engine", self.engine, ENGINES)
        method, recipe = find_method(name), self.recipe_of(name)
        method.check(method, self, problem)
        settings_of(recipe.training() | {"rays_per_step": recipe.rays_per_step})

    def settings(self, name: str) -> dict[str, Any]:
        """All settings of a method, as its results keep them."""
        method = find_method(name)
        own: dict[str, Any] = {"rays": [rounded(ray) for ray in self.rays.tolist()]}
        if self.one_by_one and method.one_per_ray:
            own["one_by_one"] = True  # the same models, but another time
        if method.options:
            own[method.options.__name__.lower()] = asdict(self.options_of(name))
        if self.solver and method.hypernetwork:
            own["solver"] = dict(self.solver)
        return describe(asdict(self.recipe_of(name))) | own


def with_settings(recipe: Recipe, settings: Mapping[str, Any]) -> Recipe:
    """The recipe with some settings replaced; settings that are no field of it are options of the model."""
    known = {item.name for item in fields(Recipe)}
    model = {name: value for name, value in settings.items() if name not in known}
    return recipe.changed(model=model, **{name: value for name, value in settings.items() if name in known})
