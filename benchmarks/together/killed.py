"""Kill a process of a job at a random moment, and continue with another number of processes."""

from __future__ import annotations

import json
import os
import random
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from together.cases import Case, fitted
from together.found import Found
from together.job import LIMIT, ended, start

WORDS = "connection to another process"
"""A part of the message of the processes that are left."""
SIZES = (2, 3, 4)


def train(out: Path, steps: int) -> None:
    """What each process of a job does."""
    fitted(Case("cnn", "EPO", 3), steps=steps, out=out, resume=True, batch=24)
    if os.environ["RANK"] == "0":
        (out.parent / "done").touch()


def run(size: int, folder: Path, steps: int) -> list[Any]:
    return start(size, folder, train, folder / "run", steps)


def final(folder: Path) -> torch.Tensor:
    """The losses of the front that a finished run has written."""
    return torch.tensor(json.loads((folder / "run" / "front.json").read_text())["losses"], dtype=torch.float64)


def epochs(folder: Path) -> int:
    file = folder / "run" / "metrics.jsonl"
    return len(file.read_text().splitlines()) if file.exists() else 0


def kill_one(folder: Path, chance: random.Random, steps: int, sizes: Sequence[int]) -> dict[str, Any]:
    """Kill one of four processes, see how the others end, and continue; return what happened."""
    processes = run(4, folder, steps)
    victim, after = chance.randrange(4), chance.randrange(1, steps // 6 - 2)
    try:
        deadline = time.monotonic() + LIMIT
        while epochs(folder) < after and time.monotonic() < deadline:
            time.sleep(0.005)
        time.sleep(chance.random() * 0.2)
        processes[victim].kill()
        killed = time.monotonic()
        codes = ended(processes)
    finally:
        for process in processes:
            process.kill()
    seconds = time.monotonic() - killed
    others = [(folder / f"messages-{rank}").read_text() for rank in range(4) if rank != victim]
    size = chance.choice(sizes)
    resumed = ended(run(size, folder, steps))
    return {
        "killed": victim,
        "in epoch": after + 1,
        "codes": codes,
        "seconds until all ended": round(seconds, 2),
        "others with the message": sum(WORDS in text for text in others),
        "continued with": size,
        "resumed": resumed == [0] * size,
    }


def kill_several(count: int, steps: int, folder: Path, found: Found) -> None:
    """Kill until there are ``count`` rows: what happened, and the differences from the same processes undisturbed."""
    expected = {}
    for number in range(len(found.rows("kills")), count):
        row = kill_one(folder / str(number), random.Random(number), steps, SIZES)
        size = row["continued with"]
        if size not in expected:
            undisturbed = folder / f"undisturbed-{size}"
            if any(ended(run(size, undisturbed, steps))):
                raise RuntimeError((undisturbed / "messages-0").read_text())
            expected[size] = final(undisturbed)
        apart = (final(folder / str(number)) - expected[size]).abs().max() if row["resumed"] else float("nan")
        found.add("kills", row | {"difference": float(apart)})
        print(number, row, float(apart), flush=True)
