"""What happens beside the training. A callback overrides what it needs."""

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
    """Called by :func:`hyperfront.fit`; every method does nothing by default.

    ``record`` is a dict with ``epoch`` (from 1), ``step`` (since the start), ``losses`` by objective, ``status`` (how
    many rays were solved how), ``lr``, ``seconds`` and, on validated epochs, ``validation``.
    """

    def started(self, *, epochs: int, steps: int, epoch: int, step: int) -> None:
        """Before the first step, at ``epoch`` and ``step`` of ``epochs`` with ``steps`` each (not 0 when resumed)."""

    def stepped(self) -> None:
        """After each step."""

    def epoch_ended(self, record: dict[str, Any]) -> None:
        """After each epoch."""

    def finished(self) -> None:
        """After the last step, also after an error or an interruption."""

    def aligned(self, *, turn: int, turns: int) -> None:
        """After each turn (from 1) of the alignment that may follow."""


def tell(callbacks: Sequence[Callback], event: str, *args: Any, **kwargs: Any) -> None:
    """All of them of an event, by the name of its method."""
    for callback in callbacks:
        getattr(callback, event)(*args, **kwargs)


class JsonLines(Callback):
    """One JSON object for each epoch, appended to a file that is cut back to the checkpoint on resume."""

    def __init__(self, path: str | Path):
        self.path = Path(path)

    def started(self, *, epochs: int, steps: int, epoch: int, step: int) -> None:
        kept = [record for record in read_records(self.path) if record["epoch"] <= epoch]
        files.write_bytes(self.path, "".join(json.dumps(record) + "\n" for record in kept).encode())
        if len(kept) < epoch:
            lost = sorted({*range(1, epoch + 1)} - {record["epoch"] for record in kept})
            warnings.warn(f"{self.path} lacks epochs {', '.join(map(str, lost[:5]))}: they were damaged", stacklevel=4)

    def epoch_ended(self, record: dict[str, Any]) -> None:
        with self.path.open("a") as file:
            file.write(json.dumps(record) + "\n")
            file.flush()
            os.fsync(file.fileno())
