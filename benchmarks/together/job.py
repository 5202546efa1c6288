"""A job of several processes on this machine, which find each other as torchrun's do.

They are forked from one process that has imported everything, so that a start takes a tenth of a second.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import socket
import sys
import time
from collections.abc import Callable, Sequence
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

LIMIT = 180.0
"""Seconds after which a job counts as hung."""
ROOT = Path(__file__).parents[1]


def start(size: int, messages: Path, work: Callable[..., None], *arguments: Any) -> list[BaseProcess]:
    """Start ``work(*arguments)`` in ``size`` processes, each with its messages in a file of the folder."""
    known = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    if str(ROOT) not in known:
        os.environ["PYTHONPATH"] = os.pathsep.join([str(ROOT), *filter(None, known)])
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that the processes end with this one
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["torch.distributed", "together.cases"])
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    messages.mkdir(parents=True, exist_ok=True)
    common = {"WORLD_SIZE": str(size), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
    given = [(common | {"RANK": str(rank)}, messages / f"messages-{rank}", work, arguments) for rank in range(size)]
    processes: list[BaseProcess] = [context.Process(target=_run, args=each, daemon=True) for each in given]
    for process in processes:
        process.start()
    return processes


def _run(environment: dict[str, str], messages: Path, work: Callable[..., None], arguments: Sequence[Any]) -> None:
    import torch
    from torch import distributed as dist

    os.environ |= environment
    with messages.open("w") as file:
        for stream in (sys.stdout, sys.stderr):
            os.dup2(file.fileno(), stream.fileno())
    torch.set_num_threads(1)
    work(*arguments)
    if dist.is_initialized():
        dist.destroy_process_group()


def ended(processes: Sequence[BaseProcess], limit: float = LIMIT) -> list[int | None]:
    """Wait for processes, and return their exit codes; kill those that hang."""
    deadline = time.monotonic() + limit
    try:
        for process in processes:
            process.join(max(0.1, deadline - time.monotonic()))
        return [process.exitcode for process in processes]
    finally:
        for process in processes:
            process.kill()


def together(size: int, messages: Path, work: Callable[..., None], *arguments: Any) -> None:
    """Run a job to its end; raise an error with its messages if it fails."""
    if any(ended(start(size, messages, work, *arguments), 3600.0)):
        raise RuntimeError("\n".join(file.read_text() for file in sorted(messages.glob("messages-*"))))
