"""Files of a run that are missing, or were swapped for those of another run or of an older epoch."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

from tests.faults.damage import CHECKPOINTS
from tests.faults.kinds import Kind
from tests.faults.processes import REFUSED
from tests.faults.trial import Trial

LAST, PREVIOUS, BEST = CHECKPOINTS
Change = Callable[[Path, Path], object]
"""A change of the folder of a run; the second folder has a run with another seed."""


def copied(name: str, to: str | None = None) -> Change:
    return lambda run, other: shutil.copy(other / name, run / (to or name))


def within(name: str, to: str) -> Change:
    return lambda run, other: shutil.copy(run / name, run / to)


def gone(*names: str) -> Change:
    return lambda run, other: [(run / name).unlink() for name in names]


def torn(*names: str) -> Change:
    return lambda run, other: [(run / name).write_bytes((run / name).read_bytes()[:-30]) for name in names]


def both(*changes: Change) -> Change:
    return lambda run, other: [change(run, other) for change in changes]


FIXED: dict[str, Change] = {
    "no newest checkpoint": gone(LAST),
    "no previous checkpoint": gone(PREVIOUS),
    "no best weights": gone(BEST),
    "no previous checkpoint and no best weights": gone(PREVIOUS, BEST),
    "newest checkpoint of an older epoch": within(PREVIOUS, LAST),
    "no configuration": gone("config.json"),
    "previous checkpoint of another run": copied(PREVIOUS),
    "best weights of another run": copied(BEST),
    "damaged best weights": torn(BEST),
    "configuration of another run": copied("config.json"),
    "damaged configuration": torn("config.json"),
    "log with a torn line": lambda run, other: (run / "metrics.jsonl").open("a").write('{"epoch": 7, "lo'),
    "front of another run": copied("front.json"),
    "newest checkpoint damaged, best weights gone": both(torn(LAST), gone(BEST)),
}
"""After these changes a run continues, and ends at the same files."""
REFUSALS: dict[str, Change] = {
    "newest checkpoint of another run": copied(LAST),
    "newest and previous checkpoint damaged": torn(LAST, PREVIOUS),
    "newest damaged, previous of another run": both(torn(LAST), copied(PREVIOUS)),
    "newest gone, previous of another run": both(gone(LAST), copied(PREVIOUS)),
    "best weights in the place of the newest checkpoint": within(BEST, LAST),
}
"""After these changes a run ends with an error, and all files stay as they are."""


def swapped(trial: Trial, other: Kind) -> tuple[int, list[str]]:
    """Try all changes on a run that stopped in its last epoch; ``other`` is a kind with another seed."""
    foreign = Trial(other, trial.place / "other").folder
    trial.die_in_the_last_epoch()
    half = shutil.copytree(trial.folder, trial.place / "half", dirs_exist_ok=True)
    wrong = []
    for name, change in (FIXED | REFUSALS).items():
        trial.begin()
        change(shutil.copytree(half, trial.folder), foreign)
        problems = trial.finish() if name in FIXED else _refused(trial)
        wrong += [f"{trial.kind.name}, {name}: {what}" for what in problems]
    return len(FIXED | REFUSALS), wrong


def _refused(trial: Trial) -> list[str]:
    def content() -> dict[str, bytes]:
        return {path.name: path.read_bytes() for path in trial.folder.iterdir()}

    before, code = content(), trial.run()
    changed = [] if content() == before else ["files were changed"]
    return changed if code == REFUSED else [f"exit code {code}: {trial.said.read_text()[-500:]}", *changed]
