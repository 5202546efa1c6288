"""Kill a process of a job at a random moment, and continue with another number of processes."""

from __future__ import annotations

import json
import os
import random
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

LIMIT = 180.0
"""Seconds after which a job counts as hung."""
WORDS = "connection to another process"
"""A part of the message of the processes that are left."""


def start(size: int, folder: Path, steps: int) -> list[subprocess.Popen]:
    """Start the processes of a job, as torchrun does, each with its messages in a file."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    common = {"WORLD_SIZE": size, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port, "OMP_NUM_THREADS": 1}
    folder.mkdir(parents=True, exist_ok=True)
    started = []
    for rank in range(size):
        environment = os.environ | {name: str(value) for name, value in (common | {"RANK": rank}).items()}
        command = [sys.executable, "-m", "together.killed", str(folder / "run"), str(steps)]
        with (folder / f"messages-{rank}").open("w") as file:
            started.append(subprocess.Popen(command, env=environment, stdout=file, stderr=file))
    return started


def ended(processes: Sequence[subprocess.Popen]) -> list[int]:
    """Wait for processes, and return their exit codes; kill those that hang."""
    deadline = time.monotonic() + LIMIT
    try:
        return [process.wait(max(0.1, deadline - time.monotonic())) for process in processes]
    finally:
        for process in processes:
            process.kill()


def final(folder: Path) -> torch.Tensor:
    """The losses of the front that a finished run has written."""
    return torch.tensor(json.loads((folder / "run" / "front.json").read_text())["losses"], dtype=torch.float64)


def epochs(folder: Path) -> int:
    file = folder / "run" / "metrics.jsonl"
    return len(file.read_text().splitlines()) if file.exists() else 0


def kill_one(folder: Path, chance: random.Random, steps: int, sizes: Sequence[int]) -> dict[str, Any]:
    """Kill one of four processes, see how the others end, and continue; return what happened."""
    processes = start(4, folder, steps)
    victim, after = chance.randrange(4), chance.randrange(1, steps // 6 - 2)
    try:
        deadline = time.monotonic() + LIMIT
        while epochs(folder) < after and time.monotonic() < deadline:
            time.sleep(0.005)
        time.sleep(chance.random() * 0.2)
        processes[victim].send_signal(signal.SIGKILL)
        killed = time.monotonic()
        codes = ended(processes)
    finally:
        for process in processes:
            process.kill()
    seconds = time.monotonic() - killed
    others = [(folder / f"messages-{rank}").read_text() for rank in range(4) if rank != victim]
    size = chance.choice(sizes)
    resumed = ended(start(size, folder, steps))
    return {
        "killed": victim,
        "in epoch": after + 1,
        "codes": codes,
        "seconds until all ended": round(seconds, 2),
        "others with the message": sum(WORDS in text for text in others),
        "continued with": size,
        "resumed": resumed == [0] * size,
    }


def kill_several(count: int, steps: int, folder: Path) -> dict[str, Any]:
    """Kill ``count`` times; return what happened, and the differences from the run that was not disturbed."""
    chance = random.Random(0)
    if any(ended(start(4, folder / "undisturbed", steps))):
        raise RuntimeError((folder / "undisturbed" / "messages-0").read_text())
    expected, found = final(folder / "undisturbed"), []
    for number in range(count):
        row = kill_one(folder / str(number), chance, steps, (2, 3, 4))
        row["difference"] = float((final(folder / str(number)) - expected).abs().max()) if row["resumed"] else None
        found.append(row)
        print(row, flush=True)
    return {"kills": found}


def main() -> None:
    from together.cases import Case, fitted

    folder, steps = sys.argv[1:]
    torch.set_num_threads(1)
    fitted(Case("cnn", "EPO", 3), steps=int(steps), out=Path(folder), resume=True, batch=24)


if __name__ == "__main__":
    main()
