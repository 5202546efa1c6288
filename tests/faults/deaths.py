"""Deaths at changes of files: at every one of a run, and again and again at random ones until the run ends."""

from __future__ import annotations

import random

from tests.faults.processes import DEAD
from tests.faults.trial import Trial


def at_every_change(trial: Trial, step: int = 1) -> tuple[int, list[str]]:
    """Die at every ``step``-th change of a run and continue: the number of deaths, and what went wrong."""
    wrong = []
    places = range(1, len(trial.changes) + 1, step)
    for place in places:
        trial.begin()
        trial.expect(trial.die(place), DEAD)
        wrong += [f"{trial.kind.name}, change {place}: {what}" for what in trial.finish()]
    return len(places), wrong


def again_and_again(trial: Trial, deaths: int, draw: random.Random) -> tuple[int, list[str]]:
    """Die at random changes until the run ends, and begin anew, for at least ``deaths`` deaths."""
    wrong, died = [], 0
    while died < deaths:
        trial.begin()
        while trial.die(draw.randint(1, len(trial.changes))) == DEAD:
            died += 1
        wrong += [f"{trial.kind.name}, after deaths: {what}" for what in trial.differences()]
    return died, wrong
