"""The checkpoints of a run: when to write them, and how to resume from them.

``last`` holds the state of the training and the best weights so far, so that one file is enough to continue, and
``previous`` is the ``last`` before it. ``best`` holds the best weights alone, for users; if it is missing or damaged,
it is written again from ``last``.
"""

from __future__ import annotations

import time
import warnings
from pathlib import Path

from hyperfront.errors import CheckpointError, DamagedError
from hyperfront.storage import checkpoint, files
from hyperfront.training.runs import RunFolder
from hyperfront.training.state import TrainingState

INTERVAL = 20
"""The time between checkpoints is this multiple of the time that writing the last one took."""
WITHIN = 60.0
"""The least seconds between checkpoints in the middle of an epoch."""


class Checkpoints:
    """``last``, ``previous`` and ``best`` of a run; without a folder, the best weights are kept in memory only."""

    def __init__(self, folder: RunFolder | None, state: TrainingState, identity: str):
        self.folder, self.state, self.identity = folder, state, identity
        self._best_is_new = False
        self._written, self._cost = time.perf_counter(), 0.0

    def resume(self) -> None:
        """Continue from the newest undamaged checkpoint, if there is one, and repair ``best``."""
        if self.folder is None or not self._load(self.folder.last, self.folder.previous):
            return
        if self.state.best is None:  # schema 2 stored the best weights in their own file only
            found = self.folder.tensors("best") if self.folder.best.exists() else {}
            self.state.best = {name: tensor.to(self.state.model.device) for name, tensor in found.items()}
        elif self.state.best and not self._best_is_whole():
            self._write_best()

    def _load(self, last: Path, previous: Path) -> bool:
        """Load ``last``, or ``previous`` with a warning. A damaged file is kept under another name."""
        try:
            if last.exists():
                self.state.load(last, self.identity)
                return True
        except DamagedError as error:
            if not previous.exists():
                raise
            self.state.load(previous, self.identity)
            kept = last.replace(last.with_name("damaged.safetensors"))
            warnings.warn(f"{error.what}: continuing from {previous}; the damaged file is {kept}", stacklevel=5)
            return True
        if previous.exists():
            self.state.load(previous, self.identity)
        return previous.exists()

    def _best_is_whole(self) -> bool:
        """Whether ``best`` exists, is undamaged, and holds the best weights of this run."""
        assert self.folder is not None
        try:
            found = checkpoint.read(self.folder.best)[1].get("run")
        except DamagedError as error:
            warnings.warn(f"{error.what}: {self.folder.best} is written again", stacklevel=5)
            return False
        except CheckpointError:
            return False
        return found == self._run_of_best()

    def keep_best(self) -> None:
        """Remember the present weights as the best ones, at the end of an epoch."""
        self.state.best = {name: tensor.detach().clone() for name, tensor in self.state.model.state_dict().items()}
        self.state.position.best_epoch = self.state.position.epoch
        self._best_is_new = True

    def write(self) -> None:
        """Write the best weights, if they are new, and then the state."""
        if self.folder is None:
            return
        start = time.perf_counter()
        if self._best_is_new:
            self._write_best()
        self._best_is_new = False
        first = not self.folder.last.exists()
        self.state.save(self.folder.last, self.identity, previous=self.folder.previous)
        if first:  # so that there are two copies from the beginning
            files.write_bytes(self.folder.previous, self.folder.last.read_bytes())
        self._written = time.perf_counter()
        self._cost = self._written - start

    def write_aligned(self) -> None:
        """Write the aligned model as ``best``."""
        if self.folder is not None:
            document = {"model": self.state.model.document(), "run": self._run_of_best()}
            checkpoint.write(self.folder.best, self.state.model.state_dict(), document)

    def write_if_due(self, *, done: bool) -> None:
        """Write at the end of a run, and so often that writing takes a twentieth of the time."""
        if done or time.perf_counter() - self._written >= INTERVAL * self._cost:
            self.write()

    def due_within(self) -> bool:
        """Whether to write in the middle of an epoch."""
        passed = time.perf_counter() - self._written
        return self.folder is not None and passed >= max(WITHIN, INTERVAL * self._cost)

    def _write_best(self) -> None:
        assert self.folder is not None and self.state.best
        document = {"model": self.state.model.document(), "run": self._run_of_best()}
        checkpoint.write(self.folder.best, self.state.best, document)

    def _run_of_best(self) -> dict[str, object]:
        return {"identity": self.identity, "epoch": self.state.position.best_epoch}
