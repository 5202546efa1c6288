"""Clocks that jump, and file systems without locks."""

from __future__ import annotations

import errno
import os
import random
import time

from tests.faults.signals import MIDDLE
from tests.faults.trial import Trial

YEAR = 365.25 * 24 * 3600


def jumping(trial: Trial, times: int, draw: random.Random) -> tuple[int, list[str]]:
    """Let the clock of the day jump anywhere, and the steady clock forward, at every look at them."""
    wrong = []
    for count in range(times):
        trial.begin()
        seed = draw.random()
        wrong += [
            f"{trial.kind.name}, clock {count}: {what}"
            for what in trial.finish(without=MIDDLE, before=lambda seed=seed: _let_jump(random.Random(seed)))
        ]
    return times, wrong


def _let_jump(draw: random.Random) -> None:
    day, steady, ahead = time.time, time.perf_counter, [0.0]

    def perf_counter() -> float:
        ahead[0] += draw.choice((0, 0, 0, draw.uniform(0, YEAR)))
        return steady() + ahead[0]

    time.time = lambda: day() + draw.uniform(-YEAR, YEAR)
    time.perf_counter = perf_counter


def without_locks(trial: Trial) -> tuple[int, list[str]]:
    """Run where the file system has no locks: it says so, and ends at the same files."""
    trial.begin()
    wrong = trial.finish(before=_refuse_locks)
    if "cannot be locked" not in trial.said.read_text():
        wrong.append("no warning")
    return 1, [f"{trial.kind.name}, no locks: {what}" for what in wrong]


def _refuse_locks() -> None:
    import fcntl

    def fail(*_: object) -> None:
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    fcntl.flock = fail
