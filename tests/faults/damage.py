"""Damaged files: flipped bits and cuts in checkpoints are noticed, and the run loses one checkpoint at most."""

from __future__ import annotations

import os
import random
import shutil
from pathlib import Path

from hyperfront.errors import DamagedError
from hyperfront.storage import checkpoint
from tests.faults.trial import Trial

CHECKPOINTS = ("last.safetensors", "previous.safetensors", "best.safetensors")


def damage(data: bytes, draw: random.Random) -> bytes:
    """Flip a bit of a file, or cut the file."""
    if draw.random() < 0.5:
        return data[: draw.randrange(len(data))]
    place, flipped = draw.randrange(8 * len(data)), bytearray(data)
    flipped[place // 8] ^= 1 << place % 8
    return bytes(flipped)


def noticed(trial: Trial, times: int, draw: random.Random) -> tuple[int, list[str]]:
    """Read damaged copies of the checkpoints of a run: their number, and those that nobody noticed."""
    trial.begin()
    trial.finish()
    whole = [path.read_bytes() for name in CHECKPOINTS if (path := trial.folder / name).exists()]
    path, wrong = trial.place / "damaged", []
    for count in range(times):
        path.write_bytes(damage(whole[count % len(whole)], draw))
        try:
            checkpoint.read(path)
            wrong.append(f"{trial.kind.name}: damage number {count} was not noticed")
        except DamagedError:
            pass
    return times, wrong


def recovered(trial: Trial, times: int, draw: random.Random) -> tuple[int, list[str]]:
    """Damage the newest checkpoint and continue: the number of runs, and those that end elsewhere or lose more."""
    trial.die_in_the_last_epoch()
    half = shutil.copytree(trial.folder, trial.place / "half", dirs_exist_ok=True)
    wrong = []
    for count in range(times):
        trial.begin()
        last = shutil.copytree(half, trial.folder) / CHECKPOINTS[0]
        last.write_bytes(damage(last.read_bytes(), draw))
        log = trial.place / "epochs"
        log.write_bytes(b"")
        wrong += [f"{trial.kind.name}, damage {count}: {what}" for what in trial.finish(at=_note_epochs(log))]
        epochs = os.path.getsize(log)
        if epochs > 2:  # the last epoch, and that after the checkpoint before
            wrong.append(f"{trial.kind.name}, damage {count}: {epochs} epochs were trained again")
    return times, wrong


def _note_epochs(log: Path):
    """Write a letter into a file for each epoch that is trained."""

    def at(_: int, event: str, path: str) -> None:
        if event == "open" and path.endswith("metrics.jsonl"):
            with log.open("a") as file:
                file.write("e")

    return at
