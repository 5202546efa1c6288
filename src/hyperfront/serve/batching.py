"""Requests that wait together are answered together.

One thread predicts; the requests that arrive meanwhile form the next batch. So a server at rest answers at once, and
the busier it is, the larger its batches are. Nothing ever waits for company.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from hyperfront.errors import HyperfrontError
from hyperfront.serve.predictor import Outputs
from hyperfront.serve.refusal import Refusal
from hyperfront.serve.service import Query

Result = TypeVar("Result")
Job = tuple[Query, "asyncio.Future[Outputs]"]


class Batcher:
    """``predict`` answers several queries at once; ``observe`` is told how many, of how many rows."""

    def __init__(
        self,
        predict: Callable[[Sequence[Query]], list[Outputs]],
        *,
        max_rows: int,
        observe: Callable[[int, int], None] = lambda queries, rows: None,
    ):
        self.predict, self.max_rows, self.observe = predict, max_rows, observe
        self._waiting: deque[Job] = deque()
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="predict")
        self._task: asyncio.Task | None = None

    async def submit(self, query: Query) -> Outputs:
        """The outputs of the query. To cancel this is to withdraw it, if it is still waiting."""
        future: asyncio.Future[Outputs] = asyncio.get_running_loop().create_future()
        self._waiting.append((query, future))
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._work())
        return await future

    async def run(self, function: Callable[[], Result]) -> Result:
        """Anything else that uses the model, in its thread."""
        return await asyncio.get_running_loop().run_in_executor(self._thread, function)

    async def close(self) -> None:
        """Answer what waits, then end."""
        if self._task is not None:
            await self._task
        self._thread.shutdown()

    async def _work(self) -> None:
        while jobs := self._next():
            for (_, future), answer in zip(jobs, await self.run(lambda: self._answers([q for q, _ in jobs]))):
                if future.done():
                    continue
                if isinstance(answer, BaseException):
                    future.set_exception(answer)
                else:
                    future.set_result(answer)

    def _next(self) -> list[Job]:
        """The oldest jobs, as many as fit into a batch, and at least one."""
        jobs: list[Job] = []
        rows = 0
        while self._waiting and (not jobs or rows + self._waiting[0][0].rows <= self.max_rows):
            job = self._waiting.popleft()
            if not job[1].done():  # its client has not given up
                jobs.append(job)
                rows += job[0].rows
        return jobs

    def _answers(self, queries: list[Query]) -> list[Outputs | Exception]:
        """An answer or an error for each; a query that fails does not take the others with it."""
        try:
            answers = self.predict(queries)
            self.observe(len(queries), sum(query.rows for query in queries))
            return list(answers)
        except Exception as error:
            if len(queries) > 1:
                return [self._answers([query])[0] for query in queries]
            return [error if isinstance(error, HyperfrontError) else _refused(error)]


def _refused(error: Exception) -> Refusal:
    """A module that works for other inputs of this shape: the numbers must be at fault."""
    return Refusal("the model does not take these inputs", got=f"{type(error).__name__}: {str(error)[:200]}")
