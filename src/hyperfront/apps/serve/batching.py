"""Batching: requests that wait at the same time are answered together.

The requests that arrive while a batch is predicted form the next batch. So an idle server answers at once, and a busier
server has larger batches. No request waits for others.

The queue is bounded by time: a request that would wait past its deadline is refused when it comes, and one whose
deadline has passed is not predicted. The waiting time is the sum of the estimates for the requests in front, times the
ratio of measured to estimated times of the latest batches.

A batch of a few milliseconds is predicted on the event loop: handing it to a thread and back takes as long as a small
network. A longer batch gets a thread, so that the server keeps accepting requests.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

import torch

from hyperfront.apps.serve import logs
from hyperfront.apps.serve.predictor import Outputs, Query
from hyperfront.apps.shared.rarely import Rarely
from hyperfront.apps.shared.refusal import Refusal
from hyperfront.errors import HyperfrontError

Result = TypeVar("Result")
ON_THE_SPOT = 0.02
"""Longest time in seconds for which a prediction may block the event loop."""
WEIGHT = 0.2
"""The weight of the latest batch in the ratio of measured to estimated times."""


@dataclass(eq=False)
class _Waiting:
    """A piece of a query, its place for the answer, and its estimated seconds; 0 once it no longer waits."""

    query: Query
    future: asyncio.Future[Outputs]
    seconds: float


class Batcher:
    """``predict`` answers several queries at once, in about ``seconds(queries)``.

    A batch has up to ``max_rows``. A larger query is split into pieces, so that it ends early when its client
    disconnects. With None, every query is a batch of its own. ``observe`` gets the number of queries and of rows.
    """

    def __init__(
        self,
        predict: Callable[[Sequence[Query]], list[Outputs]],
        *,
        seconds: Callable[[Sequence[Query]], float],
        max_rows: int | None,
        observe: Callable[[int, int], None] = lambda queries, rows: None,
    ):
        self.predict, self.seconds, self.max_rows, self.observe = predict, seconds, max_rows, observe
        self._waiting: deque[_Waiting] = deque()
        self._queued = 0.0
        """Estimated seconds of the pieces that wait."""
        self._ratio = 1.0
        """Measured by estimated seconds."""
        self._end = 0.0
        """The time of the loop at which the batch at work is expected to end."""
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="predict")
        self._model = asyncio.Lock()  # the model answers one batch at a time
        self._task: asyncio.Task | None = None
        self._failed = Rarely(logs.logger, "the model failed")

    async def submit(self, query: Query, deadline: float = math.inf) -> Outputs:
        """Return the outputs of the query, by a time of the loop. Cancelling this withdraws the pieces that wait."""
        pieces = [query]
        if self.max_rows is not None and query.rows > self.max_rows:
            pieces = [_piece(query, start, self.max_rows) for start in range(0, query.rows, self.max_rows)]
        loop = asyncio.get_running_loop()
        self._refuse_if_late(deadline, loop.time())
        jobs = [_Waiting(piece, loop.create_future(), self.seconds([piece])) for piece in pieces]
        self._waiting += jobs
        self._queued += sum([job.seconds for job in jobs])
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._work())
        futures = [job.future for job in jobs]
        timer = loop.call_at(deadline, _expire, futures) if deadline < math.inf else None
        try:
            if len(futures) == 1:
                return await futures[0]
            answers = await asyncio.gather(*futures)
            return await loop.run_in_executor(self._thread, _joined, answers)  # they may be large
        finally:
            if timer is not None:
                timer.cancel()
            for job in jobs:
                self._leave(job)
                job.future.cancel()  # the other pieces, after one that failed

    def _refuse_if_late(self, deadline: float, now: float) -> None:
        """Refuse a request that would wait past its deadline; one with nothing in front of it is always let in."""
        wait = self._queued * self._ratio + max(0.0, self._end - now)
        if wait > 0 and now + wait > deadline:
            raise Refusal(
                "the queue is longer than the time left for this request",
                got=f"about {wait:.3g} s",
                expected=f"{max(0.0, deadline - now):.3g} s",
                status=503,
                retry_after=max(1, math.ceil(now + wait - deadline)),
            )

    def _leave(self, job: _Waiting) -> None:
        self._queued, job.seconds = max(0.0, self._queued - job.seconds), 0.0

    async def run(self, function: Callable[[], Result]) -> Result:
        """Run a long function of the model in a thread. Cancelling this stops the waiting, not the function."""

        async def alone() -> Result:
            async with self._model:
                return await asyncio.get_running_loop().run_in_executor(self._thread, function)

        return await asyncio.shield(asyncio.create_task(alone()))

    async def close(self) -> None:
        """Answer the requests that wait, then end."""
        if self._task is not None:
            await self._task
        self._thread.shutdown()

    async def _work(self) -> None:
        await asyncio.sleep(0)  # requests that arrived together form one batch
        while jobs := self._next():
            queries = [job.query for job in jobs]
            estimate, start = self.seconds(queries), time.monotonic()
            if estimate > ON_THE_SPOT:
                self._end = asyncio.get_running_loop().time() + estimate * self._ratio
                answers = await self.run(partial(self._answers, queries))
                self._end = 0.0
            else:
                async with self._model:
                    answers = self._answers(queries)
            if estimate > 0:
                self._ratio += WEIGHT * ((time.monotonic() - start) / estimate - self._ratio)
            for job, answer in zip(jobs, answers):
                if job.future.done():
                    continue
                if isinstance(answer, Exception):
                    job.future.set_exception(answer)
                else:
                    job.future.set_result(answer)
            for _ in range(2):  # one turn of the loop reads requests from sockets, one more submits them
                await asyncio.sleep(0)

    def _next(self) -> list[_Waiting]:
        """Take the oldest waiting pieces, as many as fit into a batch, and at least one."""
        jobs: list[_Waiting] = []
        rows, most = 0, self.max_rows or 0
        while self._waiting and (not jobs or rows + self._waiting[0].query.rows <= most):
            job = self._waiting.popleft()
            self._leave(job)
            if not job.future.done():  # its client is still connected, and its deadline has not passed
                jobs.append(job)
                rows += job.query.rows
        return jobs

    def _answers(self, queries: list[Query]) -> list[Outputs | Exception]:
        """Return an answer or an error for each query; a query that fails does not affect the others."""
        try:
            answers = self.predict(queries)
            self.observe(len(queries), sum(query.rows for query in queries))
            return list(answers)
        except Exception as error:
            if len(queries) > 1:
                return [self._answers([query])[0] for query in queries]
            if isinstance(error, HyperfrontError):
                return [error]
            reason = f"{type(error).__name__}: {str(error)[:200]}"
            self._failed(error=reason)  # the fault may be the model's after all
            logs.logger.debug("the model failed", exc_info=True)
            return [_refused(error, reason)]


def _expire(futures: list[asyncio.Future[Outputs]]) -> None:
    """Give up what has not been answered; a piece that is done is not predicted any more."""
    for future in futures:
        if not future.done():
            future.set_exception(TimeoutError())


def _joined(answers: list[Outputs]) -> Outputs:
    return tuple(torch.cat(parts) for parts in zip(*answers))


def _piece(query: Query, start: int, rows: int) -> Query:
    part = slice(start, start + rows)
    rays = query.rays if len(query.rays) == 1 else query.rays[part]
    return Query(rays, tuple(tensor[part] for tensor in query.inputs), min(rows, query.rows - start))


def _refused(error: Exception, reason: str) -> Refusal:
    """Explain a failure: since the module works for zeros of this shape, the numbers or the memory are at fault."""
    if isinstance(error, MemoryError) or "allocate memory" in str(error):
        return Refusal("there is not enough memory for this request", fix="send fewer rows at a time", status=503)
    return Refusal("the model does not take these inputs", got=reason)
