"""``hyperfront serve`` in a process of its own, as a user starts it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from tests.helpers.serving import Client
from tests.helpers.waiting import LIMIT, until

ROOT = Path(__file__).parents[2]


@contextmanager
def started(*words: str, **environment: str) -> Iterator[tuple[Client, subprocess.Popen, list[str]]]:
    """The command, once it answers; its log is complete after the block."""
    code = "from hyperfront.apps.cli import main; main()"
    process = subprocess.Popen(
        [sys.executable, "-c", code, "serve", *words, "--port", "0"],
        cwd=ROOT,
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ | {"OMP_NUM_THREADS": "1"} | environment,
        start_new_session=True,  # a process group, so that no worker stays and holds stderr open
    )
    log: list[str] = []
    reader = threading.Thread(target=lambda: log.extend(process.stderr))
    reader.start()
    try:
        until(lambda: log or process.poll() is not None)
        assert log and "starting" in log[0], log
        client = Client(int(json.loads(log[0])["url"].rpartition(":")[2]))
        until(lambda: process.poll() is not None or answers(client))
        assert process.poll() is None, log
        yield client, process, log
        process.send_signal(signal.SIGTERM)
        process.wait(LIMIT)
    finally:
        with suppress(ProcessLookupError):  # it ended by itself, and its workers too
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        reader.join()
        process.stderr.close()


def answers(client: Client) -> bool:
    try:
        return client.get("/v2/health/ready")[0] == 200
    except OSError:
        return False
