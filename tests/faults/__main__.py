"""``python -m tests.faults [ROW ...] [--quick]``: try the rows of the table, and write counts and table."""

from __future__ import annotations

import argparse
import contextlib
import io
import os
import random
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import torch

from tests.faults import clocks, damage, deaths, disk, record, signals, swaps
from tests.faults.kinds import FITTED, KINDS, Kind, every_epoch, fit
from tests.faults.trial import Trial

AGAIN = [name for name in FITTED if name != "hf.fit, analytic"]
"""Kinds that die again and again; an epoch of the analytic problem has 100 steps."""
OTHER = Kind("hf.fit, another seed", partial(fit, seed=4))
Tried = tuple[int, list[str]]
"""The number of tries, and a description of each failure."""


class Session:
    """The rows of the table: each method tries one on a trial of a kind of run."""

    def __init__(self, *, quick: bool):
        self.quick, self.draw = quick, random.Random(0)

    def some(self, many: int, few: int) -> int:
        return few if self.quick else many

    def deaths(self, trial: Trial) -> Tried:
        died, wrong = deaths.at_every_change(trial, step=self.some(1, 9))
        if self.quick or trial.kind.name not in AGAIN:
            return died, wrong
        more = deaths.again_and_again(trial, 600, self.draw)
        return died + more[0], wrong + more[1]

    def signals(self, trial: Trial) -> Tried:
        return signals.at_changes(trial, [50]) if self.quick else signals.at_random_times(trial, 20, self.draw)

    def damage(self, trial: Trial) -> Tried:
        return damage.noticed(trial, self.some(1250, 200), self.draw)

    def recovery(self, trial: Trial) -> Tried:
        return damage.recovered(trial, self.some(30, 3), self.draw)

    def swaps(self, trial: Trial) -> Tried:
        return swaps.swapped(trial, OTHER)

    def disk(self, trial: Trial) -> Tried:
        return disk.full_at_every_change(trial, step=self.some(1, 13))

    def small_disks(self, trial: Trial) -> Tried:
        return (0, []) if self.quick else disk.on_small_disks(trial)

    def clocks(self, trial: Trial) -> Tried:
        return clocks.jumping(trial, self.some(10, 1), self.draw)

    def locks(self, trial: Trial) -> Tried:
        return clocks.without_locks(trial)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.faults", description=__doc__)
    parser.add_argument("rows", nargs="*", help=f"{', '.join(record.ROWS)}; all by default")
    parser.add_argument("--kind", action="append", choices=KINDS, help="a kind of run; all by default")
    parser.add_argument("--quick", action="store_true", help="a few of each on one kind, and write no counts")
    chosen = parser.parse_args()
    os.environ["COLUMNS"] = "120"
    torch.set_num_threads(1)
    every_epoch()
    session, failed = Session(quick=chosen.quick), False
    memory = Path("/dev/shm")  # a death loses nothing that was written, so a disk would only make it slow
    with tempfile.TemporaryDirectory(dir=memory if os.access(memory, os.W_OK) else None) as place:
        for name in ["hf.fit"] if chosen.quick else chosen.kind or KINDS:
            _warm(KINDS[name])
            trial = Trial(KINDS[name], Path(place).resolve() / name.replace(" ", "-"))
            for row in chosen.rows or record.ROWS:
                if name in record.KINDS.get(row, KINDS):
                    failed |= bool(_try(row, trial, getattr(session, row), write=not chosen.quick))
    return int(failed)


def _warm(kind: Kind) -> None:
    """Run once in this process, which imports what the forks need."""
    quiet = contextlib.redirect_stdout(io.StringIO())
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder), quiet:
        kind.run(Path(folder) / "run")


def _try(row: str, trial: Trial, tries: Callable[[Trial], Tried], *, write: bool) -> int:
    """Try a row, print its counts and every failure, and return the number of failures."""
    start = time.process_time() + os.times().children_user
    tried, wrong = tries(trial)
    for problem in wrong:
        print(problem, file=sys.stderr, flush=True)
    seconds = time.process_time() + os.times().children_user - start
    print(f"{row}: {trial.kind.name}: {tried} tried, {len(wrong)} failed, {seconds:.0f} s of one core", flush=True)
    if write:
        record.add(row, trial.kind.name, tried, len(wrong), seconds)
    return len(wrong)


if __name__ == "__main__":
    sys.exit(main())
