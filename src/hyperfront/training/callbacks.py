"""Callbacks: functions that training calls at its events."""

from __future__ import annotations

import json
import os
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from hyperfront.storage import files
from hyperfront.training.runs import read_records


class Callback:
    """The base of callbacks: :func:`hyperfront.fit` calls its methods, which do nothing by default.

    ``record`` is a dict with ``epoch`` (from 1), ``step`` (since the start), ``losses`` by objective, ``status`` (the
    number of rays for each :class:`~hyperfront.solvers.Status`), ``lr``, ``seconds`` and, on validated epochs,
    ``validation``.
    """

    def started(self, *, epochs: int, steps: int, epoch: int, step: int) -> None:
        """Is called before the first step. A resumed run starts at ``epoch`` and ``step``, a new one at 0; it has
        ``epochs`` with ``steps`` each."""

    def stepped(self) -> None:
        """Is called after each step."""

    def epoch_ended(self, record: dict[str, Any]) -> None:
        """Is called after each epoch."""

    def finished(self) -> None:
        """Is called after the last step, also after an error or an interruption."""

    def aligned(self, *, turn: int, turns: int) -> None:
        """Is called after each turn (from 1) of the alignment, if rays are aligned."""


def tell(callbacks: Sequence[Callback], event: str, *args: Any, **kwargs: Any) -> None:
    """Call the method ``event`` of all callbacks."""
    for callback in callbacks:
        getattr(callback, event)(*args, **kwargs)


class JsonLines(Callback):
    """Appends one JSON object for each epoch to a file. A resumed run first removes epochs after its checkpoint."""

    def __init__(self, path: str | Path):
        self.path = Path(path)

    def started(self, *, epochs: int, steps: int, epoch: int, step: int) -> None:
        kept = [record for record in read_records(self.path) if record["epoch"] <= epoch]
        files.write_bytes(self.path, "".join(json.dumps(record) + "\n" for record in kept).encode())
        if len(kept) < epoch:
            lost = sorted({*range(1, epoch + 1)} - {record["epoch"] for record in kept})
            warnings.warn(f"{self.path} lacks epochs {', '.join(map(str, lost[:5]))}: they were damaged", stacklevel=4)

    def epoch_ended(self, record: dict[str, Any]) -> None:
        try:
            with self.path.open("a") as file:
                file.write(json.dumps(record) + "\n")
                file.flush()
                os.fsync(file.fileno())
        except OSError as error:
            raise files.unwritable(self.path, error) from error
