"""SIGHUP: it reloads the models, unless it means that the terminal of the server was closed."""

from __future__ import annotations

import asyncio
import os
import signal
import threading
from collections.abc import Callable


class Terminal:
    """The terminal in which this process was started, if any."""

    def __init__(self) -> None:
        ignored = hasattr(signal, "SIGHUP") and signal.getsignal(signal.SIGHUP) == signal.SIG_IGN  # nohup
        self.there = not ignored and _opens()

    def closed(self) -> bool:
        """Whether the terminal was there and is no more: then the process ends, as others do."""
        return self.there and not _opens()


def on_hangup(reload: Callable[[], None]) -> None:
    """Call ``reload`` on SIGHUP, or end if the terminal was closed; only the main thread can receive signals."""
    if not hasattr(signal, "SIGHUP") or threading.current_thread() is not threading.main_thread():
        return
    terminal = Terminal()

    def received() -> None:
        if terminal.closed():
            os.kill(os.getpid(), signal.SIGTERM)
        else:
            reload()

    asyncio.get_running_loop().add_signal_handler(signal.SIGHUP, received)


def _opens() -> bool:
    try:
        os.close(os.open("/dev/tty", os.O_RDONLY | os.O_NOCTTY))
    except OSError:
        return False
    return True
