"""What one training run reached, in a file small enough to keep: rays, losses, scores, settings, environment, time."""

from __future__ import annotations

import json
import warnings
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from hyperfront import indicators
from hyperfront.comparison.baselines import ideal_volume
from hyperfront.errors import CheckpointError
from hyperfront.front import Front, evaluate
from hyperfront.preferences import convert
from hyperfront.problem import Problem
from hyperfront.problem.recipe import Recipe
from hyperfront.storage import files
from hyperfront.storage.provenance import describe, environment
from hyperfront.storage.schemas import respell, upgrade
from hyperfront.training.runs import Run

FORMAT = "hyperfront-result"
STEPS = (respell,)


@dataclass(frozen=True)
class Result:
    """A run: the model or models chosen on validation data, and their front on the test data."""

    problem: str
    preset: str
    solver: str
    seed: int
    settings: Mapping[str, Any]
    """The recipe that was used, with whatever replaced its own settings, and what the method has of its own."""
    parameters: int
    """Of the hypernetwork and of what is trained beside it, or of all models together."""
    seconds: Mapping[str, float]
    """As spent, whatever ran beside it. ``training``: the steps alone; ``total``: validation, checkpoints and
    preparation as well. :mod:`hyperfront.comparison.timing` measures methods under the same conditions."""
    objectives: tuple[str, ...]
    reference: tuple[float, ...]
    convention: str
    rays: list[list[float]]
    """What the points were asked for; none where a method has no map from rays to points."""
    fronts: Mapping[str, Mapping[str, Any]]
    """For ``val`` and ``test``: ``hypervolume``, ``uniformity`` (natural log), ``nondominated``, losses and scores.
    Without rays there is no uniformity, and the hypervolume of single tasks is that of their ideal point."""
    status: Mapping[str, int]
    """How many rays of the training were solved how."""
    environment: Mapping[str, Any]
    family: str = "phn"
    """``phn``, ``per-ray``, ``cpmtl``, ``evolutionary`` or ``single``."""

    @property
    def method(self) -> str:
        """The name that ``hyperfront compare`` has for it."""
        return f"phn-{self.solver}" if self.family == "phn" else self.solver

    def losses(self) -> Tensor:
        """The losses on the test data, ``[R, m]`` in float64."""
        return torch.tensor(self.fronts["test"]["losses"], dtype=torch.float64)

    @property
    def points(self) -> int:
        """How many points of the test front are different."""
        return different(self.fronts["test"])

    def inverse_rays(self) -> Tensor:
        """The rays in the convention ``inverse``, whatever its own is."""
        rays = torch.tensor(self.rays, dtype=torch.float64)
        return convert(rays, "direction", "inverse") if self.convention == "direction" else rays

    def save(self, path: Path) -> None:
        document = {"format": FORMAT, "schema": len(STEPS) + 1, **asdict(self)}
        files.write_bytes(path, json.dumps(document, sort_keys=True).encode())

    @classmethod
    def load(cls, path: Path) -> Result:
        fix = "remove the file: what it is of is then run again"
        try:
            document = files.read_json(path)
        except CheckpointError as error:
            raise CheckpointError(error.what, got=error.got, expected=error.expected, fix=fix) from None
        try:
            if document.pop("format") != FORMAT:
                raise KeyError("format")
            document = upgrade(document, STEPS, path)
            del document["schema"]
            if not all(isinstance(document["fronts"][split]["losses"], list) for split in ("val", "test")):
                raise TypeError("losses")
            return cls(**document)
        except (AttributeError, KeyError, TypeError) as error:
            raise CheckpointError("the file holds no result of a run", got=f"{path}: {error!r}", fix=fix) from None


def load_folder(folder: Path, *, without: str | None = None) -> list[Result]:
    """All results in a folder, at any depth but below folders called ``without``; other JSON files are passed over,
    damaged ones with a warning."""
    files = (file for file in sorted(folder.rglob("*.json")) if without not in file.relative_to(folder).parts)
    return [*loaded(file for file in files if FORMAT.encode() in file.read_bytes())]


def loaded(files: Iterable[Path]) -> Iterator[Result]:
    """The results in files, for something to look at: one that is damaged is no reason not to show the others."""
    for file in files:
        try:
            yield Result.load(file)
        except CheckpointError as error:
            warnings.warn(f"passed over: {error.what} ({error.got})", stacklevel=2)


def measure(
    run: Run,
    problem: Problem,
    *,
    preset: str,
    solver: str,
    seed: int,
    settings: Recipe | Mapping[str, Any],
    seconds: float | Mapping[str, float],
    family: str = "phn",
) -> Result:
    """The result of ``run``; this is where the test set is looked at, once.

    ``seconds`` is the time in all, or that and others by name.
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
    summary = {"cpmtl": _without_rays, "single": _ideal}.get(family, _summary)
    return Result(
        problem=problem.name,
        preset=preset,
        solver=solver,
        seed=seed,
        settings=settings,
        parameters=sum(p.numel() for p in run.model.parameters() if p.requires_grad),
        seconds={name: round(value, 2) for name, value in times.items()},
        objectives=problem.objectives,
        reference=problem.reference or (),
        convention=run.front.convention,
        rays=[] if family == "cpmtl" else [rounded(ray) for ray in run.front.rays.tolist()],
        fronts={name: summary(front) for name, front in fronts.items()},
        status=run.status,
        environment=environment(run.model.device),
        family=family,
    )


def _summary(front: Front) -> dict[str, Any]:
    return {
        "hypervolume": indicators.hypervolume(front.losses, front.reference) if front.reference else None,
        "uniformity": front.uniformity(),
        "nondominated": front.nondominated_share(),
        "losses": [rounded(row) for row in front.losses.tolist()],
        "scores": {name: rounded(values.tolist()) for name, values in front.scores.items()},
    }


def _without_rays(front: Front) -> dict[str, Any]:
    return _summary(front) | {"uniformity": None}


def _ideal(front: Front) -> dict[str, Any]:
    return _without_rays(front) | {"hypervolume": ideal_volume(front) if front.reference else None}


def different(front: Mapping[str, Any]) -> int:
    """How many points of a front are different."""
    return len({*map(tuple, front["losses"])})


def rounded(values: list[float]) -> list[float]:
    """To six digits: the file should stay small."""
    return [float(f"{value:.6g}") for value in values]
