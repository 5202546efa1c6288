"""Signals: SIGKILL ends a run where it is, the others let it save. Each run continues to the same files."""

from __future__ import annotations

import os
import random
import signal
import time

from tests.faults.trial import Trial

SIGNALS = (signal.SIGKILL, signal.SIGTERM, signal.SIGHUP, signal.SIGINT)
MIDDLE = ("previous.safetensors",)
"""After a signal in the last epoch, the checkpoint before the last one is that of the signal."""


def codes(number: int) -> tuple[int, ...]:
    """The exit codes of a process that the signal ended: by itself, or after it was saved."""
    return (-number, 128 + number)


def at_changes(trial: Trial, places: list[int]) -> tuple[int, list[str]]:
    """Send each signal at these changes of files, and continue: the number of signals, and what went wrong."""
    wrong = []
    for number in SIGNALS:
        for place in places:

            def at(count: int, event: str, path: str, number: int = number, place: int = place) -> None:
                if count == place:
                    os.kill(os.getpid(), number)

            trial.begin()
            trial.expect(trial.run(at), *codes(number))
            wrong += [f"{trial.kind.name}, {number!r} at {place}: {what}" for what in trial.finish(without=MIDDLE)]
    return len(SIGNALS) * len(places), wrong


def at_random_times(trial: Trial, times: int, draw: random.Random) -> tuple[int, list[str]]:
    """Send signals from another process at random times, each run again and again until it ends."""
    sent, wrong = 0, []
    while sent < times:
        trial.begin()
        while True:
            number, wait = SIGNALS[sent % len(SIGNALS)], draw.uniform(0, trial.seconds)

            def during(child: int, number: int = number, wait: float = wait) -> None:
                time.sleep(wait)
                os.kill(child, number)

            code = trial.run(during=during)
            if code == 0:
                break
            trial.expect(code, *codes(number))
            sent += 1
        wrong += [f"{trial.kind.name}, after signals: {what}" for what in trial.differences(MIDDLE)]
    return sent, wrong
