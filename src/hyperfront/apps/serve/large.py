"""Work on large requests, in one thread, so that the event loop keeps answering other requests.

Since there is one thread, the parsed JSON of only one request is in memory at a time.
"""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

Result = TypeVar("Result")
LARGE = 64 * 2**10
"""Size in bytes from which a request or response is large."""


class LargeWork:
    """Runs functions one after the other in one thread."""

    def __init__(self) -> None:
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="large")

    async def run(self, function: Callable[[], Result]) -> Result:
        return await asyncio.get_running_loop().run_in_executor(self._thread, _without_collection, function)

    def close(self) -> None:
        self._thread.shutdown()


def _without_collection(function: Callable[[], Result]) -> Result:
    """Call without garbage collection, which would scan all values of a document many times."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        return function()
    finally:
        if enabled:
            gc.enable()
