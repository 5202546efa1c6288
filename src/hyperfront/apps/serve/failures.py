"""Errors as responses: every one has the body ``{"error": reason}``, as clients of the protocol expect."""

from __future__ import annotations

from collections.abc import Mapping

import orjson
from fastapi import FastAPI, Request
from starlette.exceptions import HTTPException
from starlette.responses import Response

from hyperfront.apps.shared.refusal import Refusal, headers, one_line
from hyperfront.errors import HyperfrontError

BROKEN = "internal error; see the log of the server"


def reply(error: HyperfrontError | MemoryError) -> Response:
    """The response to a request that is refused."""
    if isinstance(error, MemoryError):
        error = Refusal("there is not enough memory for this request", status=503, retry_after=1)
    return _json(one_line(error), getattr(error, "status", 400), headers(error))


def broken() -> Response:
    """The response to a request that showed a fault of the server."""
    return _json(BROKEN, 500)


def handle(app: FastAPI) -> None:
    """Answer the errors of the routes."""

    @app.exception_handler(HyperfrontError)
    @app.exception_handler(MemoryError)
    async def refused(request: Request, error: HyperfrontError | MemoryError) -> Response:
        return reply(error)

    @app.exception_handler(HTTPException)
    async def not_found(request: Request, error: HTTPException) -> Response:
        return _json(f"{error.detail}: {request.method} {request.url.path}", error.status_code, error.headers)

    @app.exception_handler(Exception)
    async def fault(request: Request, error: Exception) -> Response:
        return broken()


def _json(reason: str, status: int, more: Mapping[str, str] | None = None) -> Response:
    return Response(orjson.dumps({"error": reason}), status, headers=dict(more or {}), media_type="application/json")
