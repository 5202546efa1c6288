"""Examination of a run folder: files that are damaged, missing or of another run, and their repairs.

Nothing is trained and no module is made, so it needs no code of the problem. Repairs write what training itself would
write when it resumes the run; files that a repair replaces are kept under a name that begins with ``damaged``.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from hyperfront.errors import CheckpointError, HyperfrontError
from hyperfront.front import Front
from hyperfront.storage import checkpoint, files, trees
from hyperfront.training import repairs
from hyperfront.training.runs import RunFolder, identity_of, model_tensors, number_of

RESUME = "continue the run with resume=True and its settings, which writes the file again"
SAME = 1e-3
"""The relative difference of hypervolumes of one front on two devices."""


@dataclass(frozen=True)
class Finding:
    """Something that is wrong with a file of a run."""

    file: str
    what: str
    fix: str = ""
    """The advice for a user where there is no repair."""
    repair: Callable[[], str] | None = None
    """Repairs the file, and returns what was done."""


@dataclass(frozen=True)
class Saved:
    """A sound checkpoint with a training state."""

    file: Path
    document: dict[str, Any]
    position: dict[str, Any]

    @property
    def epoch(self) -> int:
        return self.position["epoch"]

    @property
    def place(self) -> tuple[int, int]:
        return self.position["epoch"], self.position["step"]

    @property
    def after(self) -> str:
        """The epoch and the steps that the training had finished."""
        epoch, step = self.place
        return f"epoch {epoch}" + (f" and {step} steps" if step else "")

    def copied_to(self, file: Path) -> Callable[[], str]:
        """Return the repair that puts a copy of this checkpoint in the place of ``file``."""
        return partial(repairs.copy, self.file, file, self.after)

    @property
    def identity(self) -> str | None:
        return self.document.get("run", {}).get("identity")  # schema 2 has none


def repair(folder: RunFolder) -> list[tuple[Finding, str]]:
    """Make all possible repairs, and return the findings, each with its repair.

    The folder is examined again after each repair, which may make another one possible.
    """
    done: list[tuple[Finding, str]] = []
    while True:
        before = {(one.file, one.what) for one, _ in done}
        found = (one for one in Examination(folder).findings() if one.repair and (one.file, one.what) not in before)
        if (first := next(found, None)) is None or first.repair is None:
            return done
        done.append((first, first.repair()))


class Examination:
    """The contents of the files of a run. The folder must be locked, since a run may be writing them."""

    def __init__(self, folder: RunFolder):
        self.folder = folder
        if not folder.config.exists() and not folder.last.exists() and not folder.previous.exists():
            inside = sorted(str(path.parent) for path in folder.path.rglob("config.json"))[:3]
            raise CheckpointError("the folder holds no run", got=folder.path, fix=" or ".join(inside) or None)
        self.wrong: dict[Path, str] = {}
        """The fault of each damaged checkpoint, by file."""
        read = [self._read(file) for file in (folder.last, folder.previous, *folder.epochs()) if file.exists()]
        sound = [saved for saved in read if saved]
        self.config, self.config_problem = self._config()
        stated = Counter(saved.identity for saved in sound if saved.identity)
        own = identity_of(self.config) if self.config else None
        self.confirmed = not stated or own in stated
        self.identity = own if self.confirmed else stated.most_common(1)[0][0]
        for saved in sound:
            if saved.identity not in (None, self.identity):
                self.wrong[saved.file] = "it belongs to another run"
        self.sound = sorted(
            (saved for saved in sound if saved.file not in self.wrong), key=lambda saved: saved.place, reverse=True
        )
        """Sound checkpoints of this run, the newest first; ``last`` is before its other names."""

    @property
    def newest(self) -> Saved | None:
        return self.sound[0] if self.sound else None

    def findings(self) -> list[Finding]:
        """Return all that is wrong."""
        parts = (self._configuration, self._environment, self._checkpoints, self._best, self._log, self._front)
        return [finding for part in (*parts, self._temporary) for finding in part()]

    def _read(self, file: Path) -> Saved | None:
        try:
            tensors, document = checkpoint.read(file)
            saved = Saved(file, document, trees.unpack(document["training"], tensors)["position"])
            if not all(type(number) is int for number in saved.place) or not isinstance(saved.identity, str | None):
                raise TypeError("position or identity")
        except HyperfrontError as error:
            self.wrong[file] = error.what
            return None
        except (AttributeError, LookupError, TypeError, ValueError):
            self.wrong[file] = "it holds no state of a training"
            return None
        if number_of(file) not in (0, saved.epoch):
            self.wrong[file] = f"it is the checkpoint of epoch {saved.epoch}"
            return None
        return saved

    def _config(self) -> tuple[dict[str, Any] | None, str]:
        try:
            return self.folder.read_config(), ""
        except CheckpointError as error:
            return None, error.what

    def _configuration(self) -> Iterator[Finding]:
        if self.config is None:
            yield Finding("config.json", self.config_problem, RESUME)
        elif not self.confirmed:
            yield Finding("config.json", "the checkpoints were made with another configuration", RESUME)

    def _environment(self) -> Iterator[Finding]:
        file = self.folder.environment
        try:
            if file.exists():
                files.read_json(file)
        except CheckpointError as error:
            yield Finding(file.name, error.what, repair=partial(repairs.set_aside, file))

    def _checkpoints(self) -> Iterator[Finding]:
        last, previous, newest = self.folder.last, self.folder.previous, self.newest
        begun = self.folder.records() or self.folder.best.exists() or self.wrong
        if newest is None and begun:
            problem = self.wrong.get(last) or "it is missing"
            yield Finding(last.name, problem, "no checkpoint is left to continue from; start a new run")
        if newest is None:
            return
        if last in self.wrong or not last.exists():
            yield Finding(
                last.name,
                self.wrong.get(last, "it is missing"),
                repair=newest.copied_to(last),
            )
        elif newest.file != last and newest.place > next(s.place for s in self.sound if s.file == last):
            yield Finding(
                last.name,
                f"it is older than {newest.file.name}",
                repair=newest.copied_to(last),
            )
        if previous in self.wrong or not previous.exists():
            before = next((saved for saved in self.sound if saved.place < newest.place), newest)
            yield Finding(
                previous.name,
                self.wrong.get(previous, "it is missing"),
                repair=before.copied_to(previous),
            )
        for file in filter(self.wrong.__contains__, self.folder.epochs()):
            yield Finding(file.name, self.wrong[file], repair=partial(repairs.set_aside, file))

    def _best(self) -> Iterator[Finding]:
        if self.newest is None:
            return
        epoch, file = self.newest.position.get("best_epoch", 0), self.folder.best
        problem = self._problem_of_best(file, epoch)
        if not problem or (epoch == 0 and not file.exists()):
            return
        tensors, document = checkpoint.read(self.newest.file)
        at_best = self.newest.place == (epoch, 0)
        weights = model_tensors(tensors) if at_best else trees.unpack(document["training"], tensors).get("best")
        aligned = bool(self.config and self.config.get("align")) and self.folder.front.exists()
        if not weights or not epoch or aligned:  # aligned rays are in this file only
            yield Finding(file.name, problem, RESUME)
        else:
            run = {"identity": self.identity, "epoch": epoch}
            written = {"model": document["model"], "run": run}
            yield Finding(file.name, problem, repair=partial(repairs.write_best, file, weights, written))

    def _problem_of_best(self, file: Path, epoch: int) -> str:
        if not file.exists():
            return "it is missing"
        try:
            run = checkpoint.read(file)[1].get("run")
        except CheckpointError as error:
            return error.what
        if run is None:  # schema 2 has none
            return ""
        if run.get("identity") != self.identity:
            return "it belongs to another run"
        newer = self.newest is not None and run.get("epoch", 0) > self.newest.epoch  # it is written first
        return "" if newer or run.get("epoch") == epoch else f"it is of epoch {run.get('epoch')}, not {epoch}"

    def _log(self) -> Iterator[Finding]:
        file, records = self.folder.metrics, self.folder.records()
        lines = file.read_text(errors="replace").splitlines() if file.exists() else []
        if len(lines) > len(records):
            what = f"{len(lines) - len(records)} of {len(lines)} lines are damaged, or there twice"
            yield Finding(file.name, what, repair=partial(repairs.write_log, file))
        missing = sorted({*range(1, (self.newest.epoch if self.newest else 0) + 1)} - {r["epoch"] for r in records})
        if missing and len(lines) == len(records):
            named = ", ".join(map(str, missing[:5])) + (", ..." if len(missing) > 5 else "")
            yield Finding(file.name, f"it lacks epochs {named}", "they are lost; nothing else needs them")

    def _front(self) -> Iterator[Finding]:
        file, newest = self.folder.front, self.newest
        records = {record["epoch"]: record for record in self.folder.records()}
        if newest is None or self.config is None:
            return
        best = newest.position.get("best_epoch") or newest.epoch
        wanted = records.get(best, {}).get("validation", {})
        if not file.exists():
            if newest.epoch == self.config.get("epochs") and wanted:
                yield Finding(file.name, "it is missing, although the training ended", RESUME)
            return
        try:
            front = Front.load(file)
        except HyperfrontError as error:
            yield Finding(file.name, error.what, RESUME)
            return
        current = newest.epoch >= max(records, default=0)  # else the front is of epochs that will be trained again
        named = list(front.objectives) == newest.document["model"]["objectives"]
        if not named or (current and self._differs(front, wanted)):
            yield Finding(file.name, "it is not the front of the best weights of this run", RESUME)

    def _differs(self, front: Front, wanted: dict[str, Any]) -> bool:
        """Whether the hypervolume is not that of the log; aligned rays change it."""
        assert self.config is not None
        reached = wanted.get("hypervolume")
        if reached is None or self.config.get("align") or front.reference is None:
            return False
        return not math.isclose(front.hypervolume(), reached, rel_tol=SAME, abs_tol=1e-9)

    def _temporary(self) -> Iterator[Finding]:
        if found := self.folder.temporary():
            names = ", ".join(file.name for file in found)
            yield Finding(names, "a process that was killed left it", repair=partial(repairs.remove, found))
