"""Progress of a training: a bar in a terminal, one output of a notebook's cell, or lines in a log.

Each of them shows the last epoch at the end.
"""

from __future__ import annotations

import shutil
import sys
import time
from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any

from hyperfront.training.callbacks import Callback

LOG_EVERY = 30.0
"""The least seconds between lines of a log."""
CELL_EVERY = 0.25
"""The least seconds between changes of a notebook's output."""


class Progress(Callback):
    """Shows losses, hypervolume, uniformity and fallbacks of the solver: as a progress bar in a terminal and in a
    notebook, otherwise as a line every half minute."""

    def started(self, *, epochs: int, steps: int, epoch: int, step: int) -> None:
        kind = _Cell if _in_notebook() else _Bar if sys.stderr.isatty() else _Log
        self.display: _Display = kind(epochs, epoch=epoch, total=epochs * steps, done=epoch * steps + step)

    def stepped(self) -> None:
        self.display.advance()

    def epoch_ended(self, record: dict[str, Any]) -> None:
        self.display.epoch_ended(record["epoch"], _numbers(record))

    def finished(self) -> None:
        self.display.close()

    def aligned(self, *, turn: int, turns: int) -> None:
        self.display.aligned(turn, turns)


class _Display(ABC):
    """A way to show progress."""

    @abstractmethod
    def __init__(self, epochs: int, *, epoch: int, total: int, done: int): ...

    @abstractmethod
    def advance(self) -> None:
        """Show that a step is done."""

    @abstractmethod
    def epoch_ended(self, epoch: int, numbers: Mapping[str, str]) -> None:
        """Show that an epoch is done, with its numbers."""

    @abstractmethod
    def close(self) -> None:
        """Show the last epoch when the training has ended, also after an error."""

    @abstractmethod
    def aligned(self, turn: int, turns: int) -> None:
        """Show a turn of the alignment, after :meth:`close`, and remove it after the last turn."""


class _Bar(_Display):
    """A line of a terminal that is overwritten."""

    def __init__(self, epochs: int, *, epoch: int, total: int, done: int):
        from tqdm import tqdm

        self.epochs, self.make = epochs, tqdm
        self.bar = tqdm(total=total, initial=done, desc=f"epoch {epoch}/{epochs}", unit="step", dynamic_ncols=True)

    def advance(self) -> None:
        self.bar.update()

    def epoch_ended(self, epoch: int, numbers: Mapping[str, str]) -> None:
        self.bar.set_description_str(f"epoch {epoch}/{self.epochs}", refresh=False)
        self.bar.set_postfix_str(_that_fit(self.bar, numbers), refresh=False)

    def close(self) -> None:
        self.bar.close()

    def aligned(self, turn: int, turns: int) -> None:
        if turn == 1:
            self.bar = self.make(total=turns, desc="aligning rays", unit="turn", dynamic_ncols=True, leave=False)
        self.bar.update()
        if turn == turns:
            self.bar.close()


class _Cell(_Display):
    """One output of a notebook's cell, which is updated in place. It needs no widgets."""

    def __init__(self, epochs: int, *, epoch: int, total: int, done: int):
        from IPython.display import DisplayHandle

        self.epochs, self.total, self.done = epochs, total, done
        self.before, self.began, self.shown = done, time.perf_counter(), time.perf_counter()
        self.words = f"epoch {epoch}/{epochs}"
        self.handle = DisplayHandle()
        self.handle.display(self._state())

    def advance(self) -> None:
        self.done += 1
        if time.perf_counter() - self.shown > CELL_EVERY:
            self._show()

    def epoch_ended(self, epoch: int, numbers: Mapping[str, str]) -> None:
        self.words = f"epoch {epoch}/{self.epochs}, " + _joined(numbers)

    def close(self) -> None:
        self._show()

    def aligned(self, turn: int, turns: int) -> None:
        self._show(f"aligning rays, turn {turn}/{turns}" if turn < turns else "")

    def _show(self, instead: str = "") -> None:
        self.shown = time.perf_counter()
        self.handle.update(self._state(instead))

    def _state(self, instead: str = "") -> _State:
        from tqdm import tqdm

        took = self.shown - self.began
        times = tqdm.format_interval(took)
        if self.before < self.done < self.total:
            left = took * (self.total - self.done) / (self.done - self.before)
            times += f", {tqdm.format_interval(left)} left"
        return _State(self.done, self.total, f"{instead or self.words} ({times})")


class _State:
    """The output of a cell: text, and a bar in HTML."""

    def __init__(self, done: int, total: int, text: str):
        self.done, self.total, self.text = done, total, text

    def __repr__(self) -> str:
        return self.text

    def _repr_html_(self) -> str:
        from hyperfront.storage import markup

        return markup.bar(self.done, self.total, self.text)


class _Log(_Display):
    """Lines on stderr: one every half minute, and one for the last epoch."""

    def __init__(self, epochs: int, *, epoch: int, total: int, done: int):
        self.epochs, self.said, self.line = epochs, time.perf_counter(), ""

    def advance(self) -> None:
        pass

    def epoch_ended(self, epoch: int, numbers: Mapping[str, str]) -> None:
        self.line = f"epoch {epoch}/{self.epochs}  {_joined(numbers)}\n"
        if time.perf_counter() - self.said > LOG_EVERY:
            self.close()

    def close(self) -> None:
        sys.stderr.write(self.line)
        self.line, self.said = "", time.perf_counter()

    def aligned(self, turn: int, turns: int) -> None:
        pass


def _in_notebook() -> bool:
    """Whether this is a Jupyter kernel."""
    ipython = sys.modules.get("IPython")
    shell = getattr(ipython, "get_ipython", lambda: None)()
    return getattr(shell, "kernel", None) is not None


def _numbers(record: dict[str, Any]) -> dict[str, str]:
    """Return the numbers of an epoch as texts, the most important ones first."""
    shown, validation = {}, record.get("validation") or {}
    if validation.get("hypervolume") is not None:
        shown["HV"] = f"{validation['hypervolume']:.4f}"
    if validation.get("uniformity") is not None:
        shown["uniformity"] = f"{validation['uniformity']:.4f}"
    shown |= {" ".join(name.split()): f"{value:.3f}" for name, value in record["losses"].items()}
    fallbacks = record["status"].get("relaxed", 0) + record["status"].get("min_norm", 0)
    return shown | ({"fallbacks": str(fallbacks)} if fallbacks else {})


def _joined(numbers: Mapping[str, str]) -> str:
    return ", ".join(f"{name}={value}" for name, value in numbers.items())


def _that_fit(bar: Any, numbers: Mapping[str, str]) -> str:
    """Join as many numbers as fit into the terminal, since the bar would cut a number in the middle."""
    alone = bar.format_meter(**{**bar.format_dict, "ncols": None, "postfix": ""})
    room, fits = shutil.get_terminal_size().columns - len(alone), ""
    for name, value in numbers.items():
        longer = f"{fits}, {name}={value}" if fits else f"{name}={value}"
        if len(longer) + 2 > room:
            break
        fits = longer
    return fits
