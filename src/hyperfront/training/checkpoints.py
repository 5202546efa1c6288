"""When the checkpoints of a run are written, and the best weights so far."""

from __future__ import annotations

import time

from torch import Tensor

from hyperfront.storage import checkpoint
from hyperfront.training.runs import RunFolder
from hyperfront.training.state import TrainingState

INTERVAL = 20
"""The next checkpoint is due after this many times the seconds that writing the last one took."""


class Checkpoints:
    """``last`` and ``best`` of a run; without a folder, the best weights stay in memory alone."""

    def __init__(self, folder: RunFolder | None, state: TrainingState):
        self.folder, self.state = folder, state
        self.best: dict[str, Tensor] = {}
        """The best weights so far; empty before the first validation."""
        if folder is not None and state.position.best is not None and folder.best.exists():
            self.best = {name: tensor.to(state.model.device) for name, tensor in folder.tensors("best").items()}
        self._best_is_new = False
        self._written, self._cost = time.perf_counter(), 0.0

    def keep_best(self) -> None:
        """Remember the present weights as the best ones."""
        self.best = {name: tensor.detach().clone() for name, tensor in self.state.model.state_dict().items()}
        self._best_is_new = True

    def write(self) -> None:
        """Write the best weights, if they are new, and then the state that knows of them."""
        if self.folder is None:
            return
        start = time.perf_counter()
        if self._best_is_new:
            checkpoint.write(self.folder.best, self.best, {"model": self.state.model.document()})
        self._best_is_new = False
        self.state.save(self.folder.last)
        self._written = time.perf_counter()
        self._cost = self._written - start

    def write_if_due(self, *, done: bool) -> None:
        """Write at the end of a run, and often enough that writing takes a twentieth of the time."""
        if done or time.perf_counter() - self._written >= INTERVAL * self._cost:
            self.write()
