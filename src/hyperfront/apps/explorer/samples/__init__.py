"""Sample inputs of a problem, and the model's predictions for them at a ray, in a form that suits the problem."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from hyperfront.apps.explorer.samples.images import Images
from hyperfront.apps.explorer.samples.people import PeopleSamples
from hyperfront.apps.explorer.samples.scenes import Scenes
from hyperfront.apps.explorer.samples.values import Coordinates, Values
from hyperfront.problem import Problem, Split
from hyperfront.zoo.data.composites import SOURCES
from hyperfront.zoo.fairness import DATA_SETS


class Samples(Protocol):
    """A few inputs and how to show them. All methods return JSON."""

    def document(self) -> dict[str, Any]:
        """The inputs, which the page gets once; ``kind`` names the way to draw them."""
        ...

    def predict(self, network: Callable[[Any], Any]) -> Any:
        """The outputs of the network at one ray, ready to be drawn."""
        ...


def make_samples(problem: Problem, split: Split) -> Samples:
    """Make samples for a problem: special ones for built-in problems, otherwise plain numbers and images."""
    name = (problem.identity or {}).get("problem")
    if not problem.has_data:
        return Coordinates()
    if name in SOURCES:
        return Images(name, split)
    if name in DATA_SETS:
        return PeopleSamples(name, split)
    if name == "nyuv2":
        return Scenes(split)
    return Values(problem, split)
