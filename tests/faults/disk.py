"""Full disks: a run ends with an error that says so, and continues to the same files when there is space."""

from __future__ import annotations

import errno
import os
import shutil
import subprocess
from collections.abc import Callable

from tests.faults.processes import REFUSED
from tests.faults.trial import Trial

GROWING = ("open", "os.mkdir", "flush")
"""Changes that need space."""


def full_from(place: int) -> Callable[[int, str, str], None]:
    """Let every change that needs space fail, from the change number ``place`` on."""

    def at(count: int, event: str, path: str) -> None:
        if count >= place and event in GROWING:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), path)

    return at


def full_at_every_change(trial: Trial, step: int = 1) -> tuple[int, list[str]]:
    """Fill the disk at every ``step``-th change that needs space, and free it afterwards."""
    places = [place for place, change in enumerate(trial.changes, 1) if change[0] in GROWING][::step]
    wrong = []
    for place in places:
        trial.begin()
        code = trial.run(full_from(place))
        if code != REFUSED:
            wrong.append(f"{trial.kind.name}, full at {place}: exit code {code}: {trial.said.read_text()[-500:]}")
        wrong += [f"{trial.kind.name}, full at {place}: {what}" for what in trial.finish()]
    return len(places), wrong


def on_small_disks(trial: Trial) -> tuple[int, list[str]]:
    """Run on file systems in memory, from one page on until the run fits; needs the right to mount them."""
    folder, pages, wrong = trial.folder, 1, []
    while True:
        trial.begin()
        folder.mkdir(exist_ok=True)
        mount = ["mount", "-t", "tmpfs", "-o", f"size={4 * pages}k", "tmpfs", folder]
        if shutil.which("mount") is None or subprocess.run(mount, capture_output=True).returncode:
            return 0, []
        try:
            code = trial.run()
            if code not in (0, REFUSED):
                wrong.append(f"{trial.kind.name}, {pages} pages: exit code {code}: {trial.said.read_text()[-500:]}")
            subprocess.run(["mount", "-o", "remount,size=9m", folder], check=True)
            wrong += [f"{trial.kind.name}, {pages} pages: {what}" for what in trial.finish()]
        finally:
            subprocess.run(["umount", folder], check=True)
        if code == 0:
            return pages - 1, wrong
        pages += 1
