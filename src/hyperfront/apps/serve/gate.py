"""The gate that every request passes: host, API key, limit on concurrent requests, log, metrics."""

from __future__ import annotations

import asyncio
import hmac
import logging
import random
import time

import orjson
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from hyperfront.apps.serve import logs
from hyperfront.apps.serve.metrics import Metrics
from hyperfront.apps.serve.options import ServiceOptions
from hyperfront.apps.shared.hosts import host_of
from hyperfront.apps.shared.refusal import Refusal

OPEN = ("/v2/health/live", "/v2/health/ready")
"""Paths for health probes, which carry no key and are answered under any load."""
RETRY = [(b"retry-after", b"1")]
TOO_MANY = "too many requests at the same time"


class Gate:
    """ASGI middleware around the routes. It is pure ASGI, since wrappers cost more time than a small network."""

    def __init__(self, app: ASGIApp, settings: ServiceOptions, metrics: Metrics):
        self.app, self.settings, self.metrics = app, settings, metrics
        self.key = settings.api_key.encode() if settings.api_key else None
        self.hosts, self.working = settings.hosts, 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        start, status = time.perf_counter(), 0
        headers = dict(scope["headers"])
        name = headers.get(b"x-request-id", b"")[:100] or b"%032x" % random.getrandbits(128)

        async def answer(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                message["headers"] = [*message.get("headers", ()), (b"x-request-id", name)]
            await send(message)

        async def part() -> Message:
            """Receive a part of the body. A request that waits for its client is not at work."""
            self.working -= 1
            try:
                message = await receive()
            finally:
                self.working += 1
            if self.working > self.settings.limits.concurrency:
                raise Refusal(TOO_MANY, status=429, retry_after=1)
            return message

        self.working += 1
        self.metrics.in_flight.inc()
        try:
            refused = self._refuse(scope["path"], headers)
            if refused:
                await _reply(answer, *refused)
            else:
                await self.app(scope, part, answer)
        except asyncio.CancelledError:  # the server ends, and this request has had its time
            if status:
                raise
            await _reply(answer, 503, "the server is stopping", RETRY)
        except BaseException:
            status = status or 500  # the outermost layer answers with 500
            raise
        finally:
            self.working -= 1
            self.metrics.in_flight.dec()
            self._note(scope, name, status, time.perf_counter() - start)

    def _refuse(self, path: str, headers: dict[bytes, bytes]) -> tuple[int, str, list[tuple[bytes, bytes]]] | None:
        if path in OPEN:
            return None
        if not self.key and self.hosts and host_of(headers.get(b"host", b"")) not in self.hosts:
            reason = f"the request names another host (expected: {', '.join(self.hosts)}; fix: --host, or an API key)"
            return 400, reason, []
        if self.key and not _carries(headers.get(b"authorization", b""), self.key):
            reason = "the API key is missing or wrong (Authorization: Bearer KEY)"
            return 401, reason, [(b"www-authenticate", b"Bearer")]
        if self.working > self.settings.limits.concurrency:
            return 429, TOO_MANY, RETRY
        return None

    def _note(self, scope: Scope, name: bytes, status: int, seconds: float) -> None:
        path = scope.get("pattern")  # a label for every path tried would fill the memory
        if path is None:
            path = getattr(scope.get("route"), "path", "other")
        self.metrics.request(path, status, seconds)
        level = logging.ERROR if status >= 500 else logging.INFO
        if logs.logger.isEnabledFor(level):
            logs.event(
                "request",
                level=level,
                id=name.decode("latin-1"),
                method=scope["method"],
                path=scope["path"],
                status=status,
                ms=round(1000 * seconds, 3),
                **scope.get("notes", {}),
            )


def _carries(authorization: bytes, key: bytes) -> bool:
    """Whether the header is ``Bearer KEY``; the scheme may be in any case."""
    scheme, _, given = authorization.partition(b" ")
    return hmac.compare_digest(given.strip(b" "), key) and scheme.lower() == b"bearer"


async def _reply(send: Send, status: int, reason: str, headers: list[tuple[bytes, bytes]]) -> None:
    body = orjson.dumps({"error": reason})
    length = (b"content-length", str(len(body)).encode())
    kind = (b"content-type", b"application/json")
    await send({"type": "http.response.start", "status": status, "headers": [kind, length, *headers]})
    await send({"type": "http.response.body", "body": body})
