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
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import torch

from tests.faults import clocks, damage, deaths, disk, record, signals, swaps
from tests.faults.kinds import COMMANDED, FITTED, KINDS, Kind, every_epoch, fit
from tests.faults.trial import Trial

Tried = Iterator[tuple[int, list[str]]]
OTHER = Kind("hf.fit, another seed", partial(fit, seed=4))


class Session:
    """The rows of the table, each a method that yields counts of tries and descriptions of failures."""

    def __init__(self, place: Path, *, quick: bool):
        self.place, self.quick, self.draw = place, quick, random.Random(0)
        self._trials: dict[str, Trial] = {}

    def trial(self, name: str) -> Trial:
        if name not in self._trials:
            self._warm(KINDS[name])
            self._trials[name] = Trial(KINDS[name], self.place / name.replace(" ", "-"))
        return self._trials[name]

    def _warm(self, kind: Kind) -> None:
        """Run once in this process, which imports what the forks need."""
        with (
            tempfile.TemporaryDirectory() as folder,
            contextlib.chdir(folder),
            contextlib.redirect_stdout(io.StringIO()),
        ):
            kind.run(Path(folder) / "run")

    def deaths(self) -> Tried:
        if self.quick:
            yield deaths.at_every_change(self.trial("hf.fit"), step=9)
            return
        died = 0
        for name in KINDS:
            found = deaths.at_every_change(self.trial(name))
            died += found[0]
            yield found
        quick = [name for name in FITTED if name != "hf.fit, analytic"]  # its epochs have 100 steps
        for name in quick:
            each = -(-(5000 - died) // len(quick))
            yield deaths.again_and_again(self.trial(name), each, self.draw)

    def signals(self) -> Tried:
        if self.quick:
            yield signals.at_changes(self.trial("hf.fit"), [50])
            return
        for name in KINDS:
            yield signals.at_random_times(self.trial(name), 20 if name in FITTED else 16, self.draw)

    def damage(self) -> Tried:
        for name in ("hf.fit",) if self.quick else FITTED:
            yield damage.noticed(self.trial(name), 200 if self.quick else -(-10_000 // len(FITTED)), self.draw)

    def recovery(self) -> Tried:
        for name in ("hf.fit",) if self.quick else FITTED:
            yield damage.recovered(self.trial(name), 3 if self.quick else 30, self.draw)

    def swaps(self) -> Tried:
        yield swaps.swapped(self.trial("hf.fit"), OTHER)

    def disk(self) -> Tried:
        for name in ("hf.fit",) if self.quick else KINDS:
            yield disk.full_at_every_change(self.trial(name), step=13 if self.quick else 1)

    def small_disks(self) -> Tried:
        for name in () if self.quick else [*FITTED, *COMMANDED][:-2]:
            yield disk.on_small_disks(self.trial(name))

    def clocks(self) -> Tried:
        for name in ("hf.fit",) if self.quick else FITTED:
            yield clocks.jumping(self.trial(name), 1 if self.quick else 10, self.draw)

    def locks(self) -> Tried:
        for name in ("hf.fit",) if self.quick else FITTED:
            yield clocks.without_locks(self.trial(name))


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.faults", description=__doc__)
    parser.add_argument("rows", nargs="*", help=f"{', '.join(record.ROWS)}; all by default")
    parser.add_argument("--quick", action="store_true", help="a few of each, and write no counts")
    chosen = parser.parse_args()
    os.environ["COLUMNS"] = "120"
    torch.set_num_threads(1)
    every_epoch()
    failed = False
    memory = Path("/dev/shm")  # a death loses nothing that was written, so a disk would only make it slow
    with tempfile.TemporaryDirectory(dir=memory if os.access(memory, os.W_OK) else None) as place:
        session = Session(Path(place).resolve(), quick=chosen.quick)
        for row in chosen.rows or record.ROWS:
            failed |= bool(_try(row, getattr(session, row), write=not chosen.quick))
    return int(failed)


def _try(row: str, tries: Callable[[], Tried], *, write: bool) -> int:
    """Try a row, print its counts and every failure, and return the number of failures."""
    tried, wrong, start = 0, [], time.process_time() + os.times().children_user
    for count, problems in tries():
        tried += count
        wrong += problems
        for problem in problems:
            print(problem, file=sys.stderr, flush=True)
    seconds = time.process_time() + os.times().children_user - start
    print(f"{row}: {tried} tried, {len(wrong)} failed, {seconds:.0f} s of one core", flush=True)
    if write:
        record.add(row, tried, len(wrong), seconds)
    return len(wrong)


if __name__ == "__main__":
    sys.exit(main())
