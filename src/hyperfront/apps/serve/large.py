"""Work on large requests, in a thread of its own, so that the event loop keeps answering the others.

There is one such thread. So the memory for parsed JSON is that of one request, however many arrive.
"""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

Result = TypeVar("Result")
LARGE = 64 * 2**10
"""Bytes from which on a request or response is large."""


class LargeWork:
    """Runs functions one after the other in its thread."""

    def __init__(self) -> None:
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="large")

    async def run(self, function: Callable[[], Result]) -> Result:
        return await asyncio.get_running_loop().run_in_executor(self._thread, _without_collection, function)

    def close(self) -> None:
        self._thread.shutdown()


def _without_collection(function: Callable[[], Result]) -> Result:
    """Without garbage collection, which would look through all values of a document again and again."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        return function()
    finally:
        if enabled:
            gc.enable()
