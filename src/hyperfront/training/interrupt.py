"""Interruption by Ctrl-C, SIGTERM and SIGHUP: the first signal asks the loop to stop, the second one stops at once."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager

TERMINATING = [getattr(signal, name) for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name)]
"""Signals that end a process, besides SIGINT (Ctrl-C); Windows has no SIGHUP."""


class Terminated(KeyboardInterrupt, SystemExit):
    """Raised instead of ``KeyboardInterrupt`` after SIGTERM or SIGHUP.

    A script that does not catch it ends with the exit code of a process that the signal ended: 143 after SIGTERM, 129
    after SIGHUP.
    """

    def __init__(self, message: str, number: int):
        super().__init__(message)
        self.code = 128 + number


class Request:
    """A request to stop, with its signal. It is also the handler of signals."""

    number: int | None = None

    @property
    def made(self) -> bool:
        return self.number is not None

    def __call__(self, number: int, frame: object) -> None:
        if self.made:
            raise self.stopped()
        self.number = number

    def stopped(self, message: str = "") -> KeyboardInterrupt:
        """Make the exception to raise."""
        return KeyboardInterrupt(message) if self.number in (None, signal.SIGINT) else Terminated(message, self.number)


@contextmanager
def stop_requests() -> Iterator[Request]:
    """Turn signals into a request to stop within the ``with`` block. SIGTERM and SIGHUP keep a handler that the program
    has set, and stay ignored under ``nohup``."""
    request = Request()
    if threading.current_thread() is not threading.main_thread():
        yield request  # signals belong to the main thread
        return
    before = {number: signal.signal(number, request) for number in (signal.SIGINT, *filter(_free, TERMINATING))}
    try:
        yield request
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _free(number: int) -> bool:
    handler = signal.getsignal(number)
    return handler == signal.SIG_DFL or isinstance(handler, Request)
