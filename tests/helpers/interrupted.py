"""Ctrl-C at a known epoch: the process that trains sends it to itself, so that no run can end before it arrives.

``python -m tests.helpers.interrupted EPOCH TRAINING WORD ...`` runs ``hyperfront WORD ...`` in a process of its own.
"""

from __future__ import annotations

import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from hyperfront.apps.cli import main
from hyperfront.training import Progress


@contextmanager
def ctrl_c_after(epoch: int, *, training: int = 1) -> Iterator[None]:
    """Interrupt this process at the end of an epoch of its first, second, ... training that shows its progress."""
    begun, show = [], Progress.epoch_ended

    def epoch_ended(self: Progress, record: dict) -> None:
        show(self, record)
        begun.extend([1] * (record["epoch"] == 1))
        if len(begun) == training and record["epoch"] == epoch:
            signal.raise_signal(signal.SIGINT)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Progress, "epoch_ended", epoch_ended)
        yield


if __name__ == "__main__":
    epoch, training = (int(sys.argv.pop(1)) for _ in range(2))
    with ctrl_c_after(epoch, training=training):
        main()
