"""Waiting for a thread or another process, with a limit that only a hang reaches."""

from __future__ import annotations

import time
from collections.abc import Callable
from subprocess import Popen
from typing import Any

LIMIT = 600.0
"""Seconds; a busy machine may take a hundred times as long as an idle one."""


def until(condition: Callable[[], Any], process: Popen | None = None) -> Any:
    """Wait until the condition holds, and return its value. Fails at the limit, and when ``process`` ends first."""
    deadline = time.monotonic() + LIMIT
    while not (found := condition()):
        assert process is None or process.poll() is None, process.stderr and process.stderr.read()
        assert time.monotonic() < deadline
        time.sleep(0.01)
    return found
