"""Other fronts to compare with, from files: results of runs, fronts, or run folders."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import torch

from hyperfront import checkpoint
from hyperfront.errors import HyperfrontError
from hyperfront.experiments.result import FORMAT, Result
from hyperfront.front import Front
from hyperfront.runs import RunFolder


@dataclass(frozen=True)
class Baseline:
    """A front with a name."""

    name: str
    front: Front


def read(path: str | Path, objectives: tuple[str, ...], split: str) -> Baseline:
    """The front of a file or run folder, if it is of the same objectives."""
    path = Path(path)
    file = RunFolder(path).front if path.is_dir() else path
    document = checkpoint.read_json(file)
    is_result = isinstance(document, dict) and document.get("format") == FORMAT
    found = _of_result(Result.load(file), split) if is_result else _of_front(Front.load(file), path)
    if tuple(found.front.objectives) != objectives:
        raise HyperfrontError(
            "a baseline has other objectives", got=f"{path}: {', '.join(found.front.objectives)}", expected=objectives
        )
    return found


def _of_result(result: Result, split: str) -> Baseline:
    measured = result.fronts.get(split) or result.fronts["val"]
    front = Front(
        objectives=tuple(result.objectives),
        rays=torch.tensor(result.rays, dtype=torch.float64),
        losses=torch.tensor(measured["losses"], dtype=torch.float64),
        scores={name: torch.tensor(values, dtype=torch.float64) for name, values in measured["scores"].items()},
    )
    return Baseline(f"{result.solver}, {result.preset}, seed {result.seed}", front)


def _of_front(front: Front, path: Path) -> Baseline:
    return Baseline(path.parent.name if path.name == "front.json" else path.stem, front)
