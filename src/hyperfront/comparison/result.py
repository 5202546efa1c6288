"""The result of one training run, in a small file: rays, losses, scores, settings, environment and times."""

from __future__ import annotations

import json
import math
import warnings
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from hyperfront import indicators
from hyperfront.comparison import formats
from hyperfront.comparison.baselines import ideal_volume
from hyperfront.comparison.method import Method, name_of
from hyperfront.comparison.methods import stored_method
from hyperfront.errors import CheckpointError
from hyperfront.front import Front, evaluate
from hyperfront.preferences import convert
from hyperfront.problem import Problem
from hyperfront.problem.recipe import Recipe
from hyperfront.problem.registry import entry, is_builtin
from hyperfront.storage import files
from hyperfront.storage.provenance import describe, environment
from hyperfront.training.runs import Run


@dataclass(frozen=True)
class Result:
    """A run: the model or models chosen on validation data, and their front on the test data."""

    problem: str
    preset: str
    solver: str
    seed: int
    settings: Mapping[str, Any]
    """The recipe with all replaced settings, and the method's own settings."""
    parameters: int
    """The number of trained parameters, of all models together."""
    seconds: Mapping[str, float]
    """Wall-clock times, which depend on other work of the machine. ``training``: the steps alone; ``total``: also
    validation, checkpoints and preparation. :mod:`hyperfront.comparison.timing` measures methods under equal
    conditions."""
    objectives: tuple[str, ...]
    reference: tuple[float, ...]
    convention: str
    rays: list[list[float]]
    """The rays of the points; empty for a method that has no map from rays to points."""
    fronts: Mapping[str, Mapping[str, Any]]
    """For ``val`` and ``test``: ``hypervolume``, ``uniformity`` (natural log), ``nondominated``, losses and scores.
    Without rays there is no uniformity. The hypervolume of single tasks is the hypervolume of their ideal point."""
    status: Mapping[str, int]
    """The number of rays in the training by how the solver solved them."""
    environment: Mapping[str, Any]
    maximize: Mapping[str, bool] = field(default_factory=dict)
    """Whether more is better, by name of score; results of earlier versions do not state it."""
    family: str = "phn"
    """The kind of method: ``phn``, ``per-ray``, ``cpmtl``, ``evolutionary``, ``single``, or the family of your
    baseline."""

    @property
    def method(self) -> str:
        """The name of the method, as ``hyperfront compare`` takes it."""
        return name_of(self.family, self.solver)

    @property
    def kind(self) -> Method:
        """The record of the method."""
        return stored_method(self.method, self.family)

    def directions(self) -> dict[str, bool]:
        """Whether more is better, by name of score; if an older file does not state it, a built-in problem does."""
        if self.maximize or not is_builtin(self.problem):
            return dict(self.maximize)
        return {name: score.maximize for name, score in entry(self.problem).make().scores.items()}

    def losses(self) -> Tensor:
        """The losses on the test data, ``[R, m]`` in float64."""
        return torch.tensor(self.fronts["test"]["losses"], dtype=torch.float64)

    @property
    def points(self) -> int:
        """The number of different points of the test front."""
        return different(self.fronts["test"])

    def inverse_rays(self) -> Tensor:
        """The rays in the convention ``inverse``."""
        rays = torch.tensor(self.rays, dtype=torch.float64)
        return convert(rays, "direction", "inverse") if self.convention == "direction" else rays

    def save(self, path: Path) -> None:
        files.write_bytes(path, json.dumps(formats.RESULT.stamp(asdict(self)), sort_keys=True).encode())

    @classmethod
    def load(cls, path: Path) -> Result:
        fix = "remove the file: the run is then repeated"
        try:
            document = formats.read(formats.RESULT, path, settings="settings")
            formats.check_result({"maximize": {}, "family": "phn", **document})
            return cls(**document)
        except CheckpointError as error:
            raise CheckpointError(error.what, got=error.got, expected=error.expected, fix=error.fix or fix) from None
        except (AttributeError, LookupError, OverflowError, TypeError, ValueError) as error:
            raise CheckpointError("the file holds no result of a run", got=f"{path}: {error!r}", fix=fix) from None


def by_method(results: Iterable[Result]) -> dict[str, list[Result]]:
    """The results of each method, in the order of the methods."""
    groups: dict[str, list[Result]] = {}
    for result in results:
        groups.setdefault(result.method, []).append(result)
    return groups


def load_folder(folder: Path, *, without: str | None = None) -> list[Result]:
    """All results in a folder, at any depth but below folders called ``without``. Other JSON files are skipped, and
    damaged ones with a warning."""
    files = (file for file in sorted(folder.rglob("*.json")) if without not in file.relative_to(folder).parts)
    return [*loaded(file for file in files if formats.RESULT.name.encode() in file.read_bytes())]


def loaded(files: Iterable[Path]) -> Iterator[Result]:
    """The results in files; a damaged file is skipped with a warning."""
    for file in files:
        try:
            yield Result.load(file)
        except CheckpointError as error:
            warnings.warn(f"a result file is skipped: {error.what} ({error.got})", stacklevel=2)


def measure(
    run: Run,
    problem: Problem,
    *,
    preset: str,
    method: Method,
    seed: int,
    settings: Recipe | Mapping[str, Any],
    seconds: float | Mapping[str, float],
) -> Result:
    """The result of ``run``. Only here the test set is evaluated, once.

    ``seconds`` is the total time, or a mapping that names it and the times of parts.
    """
    if run.front is None:
        raise CheckpointError("the run has no validation front, so nothing was selected on it")
    settings = describe(asdict(settings)) if isinstance(settings, Recipe) else settings
    fronts = {
        "val": run.front,
        "test": evaluate(run.model, problem.test, run.front.rays, batch_size=settings["batch_size"]),
    }
    times = {"training": sum(record["seconds"] for record in run.history)}
    times |= seconds if isinstance(seconds, Mapping) else {"total": seconds}
    summary = {"front": summary_of, "points": _without_rays, "ideal": _ideal}[method.gives]
    return Result(
        problem=problem.name,
        preset=preset,
        solver=method.solver_or_name,
        seed=seed,
        settings=settings,
        parameters=sum(p.numel() for p in run.model.parameters() if p.requires_grad),
        seconds={name: round(value, 2) for name, value in times.items()},
        objectives=problem.objectives,
        reference=problem.reference or (),
        convention=run.front.convention,
        rays=[] if method.gives == "points" else [rounded(ray) for ray in run.front.rays.tolist()],
        fronts={name: summary(front) for name, front in fronts.items()},
        status=run.status,
        environment=environment(run.model.device),
        maximize={name: score.maximize for name, score in problem.scores.items()},
        family=method.family,
    )


def summary_of(front: Front) -> dict[str, Any]:
    """Losses and scores of a front, its hypervolume and its uniformity."""
    return {
        "hypervolume": indicators.hypervolume(front.losses, front.reference) if front.reference else None,
        "uniformity": None if math.isnan(uniformity := front.uniformity()) else uniformity,
        "nondominated": front.nondominated_share(),
        "losses": [rounded(row) for row in front.losses.tolist()],
        "scores": {name: rounded(values.tolist()) for name, values in front.scores.items()},
    }


def _without_rays(front: Front) -> dict[str, Any]:
    return summary_of(front) | {"uniformity": None}


def _ideal(front: Front) -> dict[str, Any]:
    return _without_rays(front) | {"hypervolume": ideal_volume(front) if front.reference else None}


def different(front: Mapping[str, Any]) -> int:
    """Count the different points of a front."""
    return len({*map(tuple, front["losses"])})


def rounded(values: list[float]) -> list[float]:
    """The values to six digits, so that files stay small."""
    return [float(f"{value:.6g}") for value in values]
