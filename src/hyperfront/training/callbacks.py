"""What happens beside the training: progress and a log. A callback overrides what it needs."""

from __future__ import annotations

import json
import os
import shutil
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from hyperfront.errors import CheckpointError
from hyperfront.training.runs import read_records

LOG_EVERY = 30.0
"""Seconds between lines of a log."""


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


class Progress(Callback):
    """A progress bar with losses, hypervolume, uniformity and solver fallbacks; where there is no terminal, a line now
    and then."""

    def started(self, *, epochs: int, steps: int, epoch: int, step: int) -> None:
        from tqdm.auto import tqdm

        done = epoch * steps + step
        self.bar = tqdm(total=epochs * steps, initial=done, unit="step", disable=None, dynamic_ncols=True)
        self.epochs, self.said = epochs, time.perf_counter()

    def stepped(self) -> None:
        self.bar.update()

    def epoch_ended(self, record: dict[str, Any]) -> None:
        shown = {}  # what matters most first
        validation = record.get("validation") or {}
        if validation.get("hypervolume") is not None:
            shown["HV"] = f"{validation['hypervolume']:.4f}"
        if validation:
            shown["uniformity"] = f"{validation['uniformity']:.4f}"
        shown |= {name: f"{value:.3f}" for name, value in record["losses"].items()}
        fallbacks = record["status"].get("relaxed", 0) + record["status"].get("min_norm", 0)
        if fallbacks:
            shown["fallbacks"] = str(fallbacks)
        if not self.bar.disable:
            self.bar.set_postfix_str(_that_fit(self.bar, shown), refresh=False)
        elif time.perf_counter() - self.said > LOG_EVERY:
            numbers = ", ".join(f"{name}={value}" for name, value in shown.items())
            sys.stderr.write(f"epoch {record['epoch']}/{self.epochs}  {numbers}\n")
            self.said = time.perf_counter()

    def finished(self) -> None:
        self.bar.close()

    def aligned(self, *, turn: int, turns: int) -> None:
        from tqdm.auto import tqdm

        if turn == 1:
            self.bar = tqdm(total=turns, desc="aligning rays", unit="turn", disable=None, dynamic_ncols=True)
        self.bar.update()
        if turn == turns:
            self.bar.close()


def _that_fit(bar: Any, shown: dict[str, str]) -> str:
    """As many of these words as the terminal has room for: the bar would cut a number in the middle."""
    alone = bar.format_meter(**{**bar.format_dict, "ncols": None, "postfix": ""})
    room, fits = shutil.get_terminal_size().columns - len(alone), ""
    for name, value in shown.items():
        longer = f"{fits}, {name}={value}" if fits else f"{name}={value}"
        if len(longer) + 2 > room:
            break
        fits = longer
    return fits


class JsonLines(Callback):
    """One JSON object for each epoch, appended to a file that is cut back to the checkpoint on resume."""

    def __init__(self, path: str | Path):
        self.path = Path(path)

    def started(self, *, epochs: int, steps: int, epoch: int, step: int) -> None:
        kept = [record for record in read_records(self.path) if record["epoch"] <= epoch]
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self.path.write_text("".join(json.dumps(record) + "\n" for record in kept))
        except OSError as error:
            raise CheckpointError("cannot write the log", got=f"{self.path}: {error.strerror}") from error

    def epoch_ended(self, record: dict[str, Any]) -> None:
        with self.path.open("a") as file:
            file.write(json.dumps(record) + "\n")
            file.flush()
            os.fsync(file.fileno())
