"""Outdated results: those of an earlier numerics version than the package has, and a plan to run them again.

A result states the numerics version of the package that made it
(:data:`hyperfront.storage.provenance.NUMERICS`); results without one are from before it was stored, and count as 0.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

import torch

from hyperfront.comparison.formats import RESULT
from hyperfront.comparison.result import Result
from hyperfront.storage.provenance import NUMERICS
from reproduction.store import Store
from reproduction.studies import STUDIES


class Outdated(NamedTuple):
    """A result that is older than the numerics of the package."""

    file: Path
    numerics: int
    study: str
    """The study of an item that has the result; empty for results of ``hyperfront train``."""
    result: Result

    @property
    def minutes(self) -> float:
        """The minutes that it took."""
        return float(self.result.seconds.get("total", self.result.seconds["training"])) / 60

    @property
    def device(self) -> str:
        return str(self.result.environment.get("device", "unknown"))

    def row(self) -> tuple[str, ...]:
        """A row of :data:`COLUMNS`."""
        where = self.study or f"{self.result.problem}, {self.result.preset}"
        return where, self.result.method, str(self.result.seed), str(self.numerics), self.device, f"{self.minutes:.1f}"


COLUMNS = ("study", "method", "seed", "numerics", "device", "minutes")


def outdated(folder: Path) -> list[Outdated]:
    """The results in a folder that a table shows and that are older than the package, the shortest first."""
    found = []
    for file in sorted(folder.rglob("*.json")):
        if RESULT.name.encode() not in file.read_bytes():
            continue
        result = Result.load(file)
        numerics = int(result.environment.get("numerics", 0))
        study = file.parents[1].name if file.parent.name == "results" else ""
        if numerics < NUMERICS:
            found.append(Outdated(file, numerics, study if study in STUDIES else "", result))
    return sorted(found, key=lambda each: (each.minutes, each.file))


def plan(found: Iterable[Outdated], minutes: float, device: str) -> list[Outdated]:
    """Choose the results to run again, the shortest first, as many as fit into ``minutes``: those of a study that were
    made on this kind of ``device``."""
    chosen, left = [], minutes
    for each in found:
        same_device = (torch.device(device).type == "cuda") == ("NVIDIA" in each.device)
        if each.study and same_device and each.minutes <= left:
            chosen.append(each)
            left -= each.minutes
    return chosen


def rerun(store: Store, chosen: Sequence[Outdated]) -> None:
    """Run the results of a plan again. An old file stays until the new one is there; a run that fails restores it."""
    for each in chosen:
        kept = each.file.with_suffix(".old")
        each.file.replace(kept)
        shutil.rmtree(store.runs_of(each.study) / f"{each.result.method}-{each.result.seed}", ignore_errors=True)
        try:
            store.results(each.study, [each.result.method])
        except BaseException:
            if not each.file.exists():
                kept.replace(each.file)
            raise
        kept.unlink()
