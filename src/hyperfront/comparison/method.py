"""A method of a comparison: one record with all facts that other code needs.

A new baseline is one file with a function that trains it and its :class:`Method`, and one line in the table of
:mod:`hyperfront.comparison.methods`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from hyperfront.problem import Problem
from hyperfront.problem.recipe import Recipe
from hyperfront.training.runs import Run, RunFolder

if TYPE_CHECKING:
    from hyperfront.comparison.protocol import Protocol

HYPERNETWORK = "phn"
"""The family of all Pareto hypernetworks."""
Trained = tuple[Run, dict[str, float]]
"""A run, and the seconds that parts of it took, by name."""


@dataclass(frozen=True)
class Method:
    """A method: its name, and the properties that distinguish it from other methods."""

    name: str
    """The name in commands, folders and result files."""
    label: str
    """The name in figures and in the paper's tables."""
    summary: str
    """The models that the method trains, in a few words for help texts; methods of a kind share them."""
    family: str
    """The kind of method, as result files state it."""
    train: Callable[[ComparisonJob], Trained]
    """Trains the method, or continues an interrupted training."""
    solver: str = ""
    """The solver that weighs its losses, if it has one."""
    hypernetwork: bool = False
    """Whether one model serves all rays. Other methods train by the recipe for separate models."""
    one_per_ray: bool = False
    """Whether it trains one model for each ray, so that these models could also be trained one after the other."""
    gives: Literal["front", "points", "ideal"] = "front"
    """``front``: a point for each ray; ``points``: a set of points without rays; ``ideal``: one model per objective."""
    population: bool = False
    """Whether it evolves a population; a result has the individuals nearest to the rays."""
    starts_from: str | None = None
    """The method whose trained models it begins with; it also takes the settings tuned for that method."""
    tunable: frozenset[str] = frozenset()
    """The settings of a recipe that `tune` can search. Options of a hypernetwork can be searched as well."""
    options: type | None = None
    """A frozen dataclass with the settings that only this method has, and their defaults."""
    check: Callable[[Method, Protocol, Problem], None] = lambda method, protocol, problem: None
    """Raises an error for a problem or settings that the method cannot handle."""
    sees: Callable[[Problem], Problem] = lambda problem: problem
    """Returns the problem with the inputs that the method's models take, to measure them."""
    spent: Callable[[ComparisonJob], float] = lambda job: seconds_in(job.folder)
    """The seconds that interrupted calls have spent on this job."""
    seconds_after: Callable[[Protocol, Problem, Run], float] = lambda protocol, problem, run: 0.0
    """The seconds that each model takes after it is trained, estimated from the first model of a run."""

    @property
    def has_rays(self) -> bool:
        """Whether the method can be asked for a point at a ray."""
        return self.gives == "front"

    @property
    def trained_as(self) -> str:
        """The method whose recipe and run folder its training has."""
        return self.starts_from or self.name

    @property
    def solver_or_name(self) -> str:
        """The word that result files keep beside the family."""
        return self.solver or self.name

    def recipe(self, recipe: Recipe) -> Recipe:
        """The recipe of a problem, as this kind of method trains by it."""
        return recipe if self.hypernetwork else recipe.for_separate_models()


def name_of(family: str, solver: str) -> str:
    """The name of the method that a result file states as its family and solver.

    >>> name_of("phn", "epo"), name_of("per-ray", "epo"), name_of("evolutionary", "moead")
    ('phn-epo', 'epo', 'moead')
    """
    return f"{family}-{solver}" if family == HYPERNETWORK else solver


@dataclass(frozen=True)
class ComparisonJob:
    """One training: a method with one seed on a problem, and the folder of its runs."""

    method: Method
    protocol: Protocol
    problem: Problem
    seed: int
    runs: Path
    callbacks: list[Any]

    @property
    def folder(self) -> Path:
        """The run folder."""
        return self.runs / f"{self.method.name}-{self.seed}"

    @property
    def recipe(self) -> Recipe:
        """The recipe that the method trains by, with its tuned settings."""
        return self.protocol.recipe_of(self.method.name)

    @property
    def options(self) -> Any:
        """The settings that only this method has."""
        return self.protocol.options_of(self.method.name)

    @property
    def fitting(self) -> dict[str, Any]:
        """Arguments of :func:`hyperfront.fit` that depend on the job alone."""
        where = {"device": self.protocol.device, "engine": self.protocol.engine}
        return {"seed": self.seed, "callbacks": self.callbacks, **where}

    @contextmanager
    def bar(self, total: int, unit: str) -> Iterator[Callable[[], Any]]:
        """Show a progress bar, if the job shows progress. The caller calls the yielded function after each ``unit``."""
        from tqdm.auto import tqdm

        with tqdm(total=total, unit=unit, disable=None if self.callbacks else True, dynamic_ncols=True) as bar:
            yield bar.update


def seconds_in(folder: Path) -> float:
    """The training time in a run folder, or in the folders of models that are trained one after the other."""
    return sum(RunFolder(path).seconds() for path in (folder, *folder.glob("ray-*")))
