"""Baselines: other fronts to compare with, read from result files, stored fronts, run folders, or points in a CSV."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch

from hyperfront.comparison.formats import RESULT
from hyperfront.comparison.result import Result
from hyperfront.errors import HyperfrontError
from hyperfront.front import Front
from hyperfront.front.beside import of_csv
from hyperfront.storage import files
from hyperfront.training.runs import RunFolder


@dataclass(frozen=True)
class Baseline:
    """A front with a name."""

    name: str
    front: Front
    problem: str | None
    """The problem of the front, if it is known."""


def read(
    path: str | Path, objectives: tuple[str, ...], split: str, problem: str | None = None, scores: Sequence[str] = ()
) -> Baseline:
    """Read the front of a file or run folder; raise an error for other objectives, or for another problem.

    A CSV has points without rays, for example of models that others trained: its columns are some of the objectives and
    ``scores``, by name, and every other column is left out.
    """
    path = Path(path)
    if path.suffix.lower() == ".csv":
        return Baseline(path.stem, _of_csv(path, objectives, scores), None)
    file = RunFolder(path).front if path.is_dir() else path
    document = files.read_json(file)
    is_result = isinstance(document, dict) and document.get("format") == RESULT.name
    found = _of_result(Result.load(file), split) if is_result else _of_front(Front.load(file), path)
    if tuple(found.front.objectives) != objectives:
        raise HyperfrontError(
            "a baseline has other objectives", got=f"{path}: {', '.join(found.front.objectives)}", expected=objectives
        )
    if problem is not None and found.problem not in (None, problem):
        raise HyperfrontError("a baseline is of another problem", got=f"{path}: {found.problem}", expected=problem)
    return found


def _of_result(result: Result, split: str) -> Baseline:
    measured = result.fronts.get(split) or result.fronts["val"]
    front = Front(
        objectives=tuple(result.objectives),
        rays=torch.tensor(result.rays, dtype=torch.float64),
        losses=torch.tensor(measured["losses"], dtype=torch.float64),
        scores={name: torch.tensor(values, dtype=torch.float64) for name, values in measured["scores"].items()},
    )
    return Baseline(f"{result.method}, {result.preset}, seed {result.seed}", front, result.problem)


def _of_front(front: Front, path: Path) -> Baseline:
    name = path.parent.name if path.name == "front.json" else path.stem
    return Baseline(name, front, front.provenance.get("problem"))


def _of_csv(path: Path, objectives: tuple[str, ...], scores: Sequence[str]) -> Front:
    """Points ``[R]`` with NaN for every loss and score that the file lacks, and for rays."""
    table = of_csv(path, [*objectives, *scores])
    missing = torch.full((len(next(iter(table.values()))),), torch.nan, dtype=torch.float64)
    return Front(
        objectives=objectives,
        rays=missing[:, None].expand(-1, len(objectives)),
        losses=torch.stack([table.get(name, missing) for name in objectives], dim=1),
        scores={name: table.get(name, missing) for name in scores},
    )
