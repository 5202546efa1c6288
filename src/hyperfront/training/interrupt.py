"""Ctrl-C at a safe point: the first one asks the loop to stop after the current step, the second stops at once."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager


class Request:
    """Whether somebody asked to stop."""

    made = False


@contextmanager
def ctrl_c() -> Iterator[Request]:
    request = Request()
    if threading.current_thread() is not threading.main_thread():
        yield request  # signals belong to the main thread
        return

    def ask(number: int, frame: object) -> None:
        if request.made:
            raise KeyboardInterrupt
        request.made = True

    before = signal.signal(signal.SIGINT, ask)
    try:
        yield request
    finally:
        signal.signal(signal.SIGINT, before)
