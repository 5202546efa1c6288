"""A line of the log that is written at most once a second."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from typing import Any


class Rarely:
    """Writes a warning at most once a second, with the number of times since the last one.

    >>> clock = iter([0.0, 0.5, 1.5]).__next__
    >>> warn = Rarely(logging.getLogger("example"), "too many", clock=clock)
    >>> warn(), warn(), warn()
    (1, 0, 2)
    """

    def __init__(self, logger: logging.Logger, what: str, *, clock: Callable[[], float] = time.monotonic):
        self.logger, self.what, self.clock = logger, what, clock
        self.times, self.last = 0, float("-inf")

    def __call__(self, **fields: Any) -> int:
        """Note one more; returns how many are in the line that was written, or 0."""
        self.times += 1
        now = self.clock()
        if now - self.last < 1:
            return 0
        written, self.times, self.last = self.times, 0, now
        self.logger.warning(self.what, extra={"fields": {"times": written, **fields}})
        return written
