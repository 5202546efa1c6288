"""The checkpoints of a run: when to write them, and how to resume from them.

``last`` holds the state of the training and the best weights so far, so that one file is enough to continue, and
``previous`` is the ``last`` before it. ``best`` holds the best weights alone, for users; if it is missing or damaged,
it is written again from ``last``. A run with ``keep=`` also has the checkpoints of its last epochs, or of all, each
under the name of its epoch.
"""

from __future__ import annotations

import time
import warnings
from pathlib import Path
from typing import Literal

from hyperfront.errors import CheckpointError, DamagedError, HyperfrontError, check_number
from hyperfront.storage import checkpoint, files
from hyperfront.training.runs import RunFolder, number_of
from hyperfront.training.state import TrainingState

INTERVAL = 20
"""The time between checkpoints is this multiple of the time that writing the last one took."""
WITHIN = 60.0
"""The least seconds between checkpoints in the middle of an epoch."""


TWO = 2
"""The default number of checkpoints besides the best: ``last`` and ``previous``."""


def check_keep(keep: int | Literal["all"]) -> None:
    """Raise an error for a number of checkpoints that a run cannot keep."""
    if isinstance(keep, str) and keep != "all":
        raise HyperfrontError("keep is neither a number nor 'all'", got=repr(keep), expected="2 or more, or 'all'")
    if not isinstance(keep, str):  # two, since a run continues from the second if the newest is damaged
        check_number("keep", keep, TWO, whole=True)


class Checkpoints:
    """``last``, ``previous`` and ``best`` of a run; without a folder, the best weights are kept in memory only."""

    def __init__(
        self,
        folder: RunFolder | None,
        state: TrainingState,
        identity: str,
        *,
        keep: int | Literal["all"] = TWO,
        writes: bool = True,
    ):
        self.folder, self.state, self.identity, self.keep = folder, state, identity, keep
        self.writes = writes and folder is not None
        """Whether this process writes the files; of several that train together, one does."""
        self._best_is_new = False
        self._written, self._cost = time.perf_counter(), 0.0

    def resume(self) -> None:
        """Continue from the newest undamaged checkpoint, if there is one, and repair ``best``."""
        if self.folder is None or not self._load_newest():
            return
        self._keep_epoch()
        if self.state.best is None:  # schema 2 stored the best weights in their own file only
            found = self.folder.tensors("best") if self.folder.best.exists() else {}
            self.state.best = {name: tensor.to(self.state.model.device) for name, tensor in found.items()}
        elif self.writes and self.state.best and not self._best_is_whole():
            self._write_best()

    def _load_newest(self) -> bool:
        """Load the newest undamaged checkpoint, with a warning if another one is damaged. The process
        that writes keeps a damaged ``last`` under another name."""
        assert self.folder is not None
        last, aside, damage = self.folder.last, self.folder.path / "damaged.safetensors", None
        for file in filter(Path.exists, (last, self.folder.previous, *self.folder.epochs())):
            try:
                self.state.load(file, self.identity)
            except DamagedError as error:
                damage = damage or error
                continue
            if damage:
                kept = f"; the damaged file is {last.replace(aside)}" if self.writes and last.exists() else ""
                warnings.warn(f"{damage.what}: continuing from {file}{kept}", stacklevel=5)
            return True
        if damage:
            raise damage
        return False

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
        now, best = self.state.model.state_dict(), self.state.best
        if best and all(name in best and best[name].shape == tensor.shape for name, tensor in now.items()):
            for name, tensor in now.items():  # in place: there is no third copy
                best[name].copy_(tensor.detach())
        else:
            self.state.best = {name: tensor.detach().clone() for name, tensor in now.items()}
        self.state.position.best_epoch = self.state.position.epoch
        self._best_is_new = True

    def write(self) -> None:
        """Write the best weights, if they are new, and then the state."""
        if self.folder is None or not self.writes:
            return
        start = time.perf_counter()
        if self._best_is_new:
            self._write_best()
        self._best_is_new = False
        self.state.save(self.folder.last, self.identity, previous=self.folder.previous)
        if not self.folder.previous.exists():  # so that there are two copies from the beginning
            files.copy(self.folder.last, self.folder.previous)
        self._keep_epoch()
        self._written = time.perf_counter()
        self._cost = self._written - start

    def write_aligned(self) -> None:
        """Write the aligned model as ``best``."""
        if self.folder is not None and self.writes:
            document = {"model": self.state.model.document(), "run": self._run_of_best()}
            checkpoint.write(self.folder.best, self.state.model.state_dict(), document)

    def write_if_due(self, *, done: bool) -> None:
        """Write at the end of a run, and so often that writing takes a twentieth of the time; after every epoch if
        epochs are kept."""
        if done or self.keep != TWO or time.perf_counter() - self._written >= INTERVAL * self._cost:
            self.write()

    def due_within(self) -> bool:
        """Whether to write in the middle of an epoch."""
        passed = time.perf_counter() - self._written
        return self.writes and passed >= max(WITHIN, INTERVAL * self._cost)

    def _keep_epoch(self) -> None:
        """Give ``last`` the name of its epoch too, and remove older epochs than those to keep."""
        epoch = self.state.position.epoch
        if self.folder is None or not self.writes or self.keep == TWO or self.state.position.step:
            return
        if not self.folder.last.exists():
            return
        files.link(self.folder.last, self.folder.epoch(epoch))
        if self.keep != "all":
            for old in [file for file in self.folder.epochs() if number_of(file) <= epoch][self.keep :]:
                old.unlink(missing_ok=True)

    def _write_best(self) -> None:
        assert self.folder is not None and self.state.best
        document = {"model": self.state.model.document(), "run": self._run_of_best()}
        checkpoint.write(self.folder.best, self.state.best, document)

    def _run_of_best(self) -> dict[str, object]:
        return {"identity": self.identity, "epoch": self.state.position.best_epoch}
