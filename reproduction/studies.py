"""The studies of the paper, each one comparison of methods at the same rays. ``studies.toml`` declares them.

Items (:mod:`reproduction.items`) share studies, so that nothing is trained twice.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from hyperfront.comparison.protocol import with_settings
from hyperfront.problem.recipe import Recipe
from hyperfront.problem.registry import entry, recipe
from reproduction.paper import declared


@dataclass(frozen=True)
class Study:
    """Methods on one problem: the same rays, seeds and settings."""

    problem: str
    methods: Sequence[str]
    rays: int
    seeds: int = 3
    preset: str = "paper"
    changes: Mapping[str, Any] = field(default_factory=dict)
    """Settings that replace those of the preset: fields of its recipe, or options of the hypernetwork."""
    arguments: Mapping[str, Any] = field(default_factory=dict)
    """Arguments of the problem, beside those of the preset."""
    search: Mapping[str, list[Any]] = field(default_factory=dict)
    """Settings to be chosen for each method, by the paper's protocol (:mod:`hyperfront.comparison.tune`)."""
    solver: Mapping[str, Any] = field(default_factory=dict)
    """Options of the solver."""
    options: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """Settings that one method alone has, by method."""

    def recipe(self) -> Recipe:
        """The preset with the settings that the study changes."""
        known = recipe(self.problem, self.preset)
        return with_settings(known, {**self.changes, "arguments": {**known.arguments, **self.arguments}})

    def smoke(self) -> Study:
        """The same methods in seconds, with the preset ``smoke``: few rays and rows, one seed, one epoch."""
        small = replace(self, rays=max(2, self.rays // 5), changes={"epochs": 1}, options=FEW, seeds=1, search={})
        if "smoke" not in entry(self.problem).presets:  # a toy has no rows
            return small
        return replace(small, preset="smoke", arguments={**self.arguments, **recipe(self.problem, "smoke").arguments})


GENERATIONS = {"generations": 5, "population": 12}
FEW = {"cpmtl": {"steps": 1, "iterations": 1, "rows": 64}, "nsga3": GENERATIONS, "moead": GENERATIONS}


def _studies() -> Iterator[tuple[str, Study]]:
    for group in declared("studies").values():
        problems, common = group.pop("problems"), group.pop("common", {})
        for name, fields in group.items():
            for problem in problems:
                yield name.replace("*", problem), Study(problem, **{**common, **fields})


STUDIES = dict(_studies())
