"""The state of a server that outlives a reload of its models: limits, metrics, memory for bodies, threads."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from hyperfront.apps.serve.large import LargeWork
from hyperfront.apps.serve.metrics import Metrics
from hyperfront.apps.serve.options import ServiceOptions
from hyperfront.apps.shared.bodies import Bodies
from hyperfront.apps.shared.refusal import Refusal

Result = TypeVar("Result")


class ServerState:
    """The limits, metrics and threads that all models of a process share."""

    def __init__(self, settings: ServiceOptions):
        self.settings, self.limits = settings, settings.limits
        self.metrics, self.bodies, self.large = Metrics(), Bodies(settings.limits), LargeWork()
        self.searches = ThreadPoolExecutor(1, thread_name_prefix="select")
        self.ready = False

    def deadline(self) -> float:
        """The time of the loop at which a request that begins now must be answered."""
        return asyncio.get_running_loop().time() + self.limits.seconds

    async def within(self, deadline: float, work: Awaitable[Result]) -> Result:
        """Wait for ``work`` until the deadline."""
        try:
            async with asyncio.timeout_at(deadline):
                return await work
        except TimeoutError:
            raise Refusal("no answer before the deadline of the request", status=503) from None

    def close(self) -> None:
        """End the threads."""
        self.large.close()
        self.bodies.thread.shutdown()
        self.searches.shutdown(cancel_futures=True)
