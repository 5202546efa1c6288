"""The application: the gate, then predictions, then the other routes; and models that can be replaced."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

from fastapi import FastAPI
from starlette.middleware.cors import CORSMiddleware
from starlette.types import ASGIApp, Receive, Scope, Send

from hyperfront.apps.serve import failures, logs
from hyperfront.apps.serve.gate import Gate
from hyperfront.apps.serve.inference import Response, infer
from hyperfront.apps.serve.models import Models
from hyperfront.apps.serve.options import ServiceOptions
from hyperfront.apps.serve.routes import make_routes
from hyperfront.apps.serve.service import Service
from hyperfront.apps.serve.state import ServerState
from hyperfront.errors import HyperfrontError


class Application:
    """The ASGI application of a server."""

    def __init__(self, services: Sequence[Service], settings: ServiceOptions):
        self.server = ServerState(settings)
        self.models = Models(services, self.server)
        self.routes = make_routes(self.models, self.server)
        self.lifespan = FastAPI(lifespan=self._living)
        self.entrance: ASGIApp = Gate(self._dispatch, settings, self.server.metrics)
        if settings.cors:
            exposed = ["Inference-Header-Content-Length", "X-Request-ID"]
            self.entrance = CORSMiddleware(
                self.entrance,
                allow_origins=settings.cors,
                allow_methods=["GET", "POST"],
                allow_headers=["*"],
                expose_headers=exposed,
            )

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await (self.lifespan if scope["type"] == "lifespan" else self.entrance)(scope, receive, send)

    async def _dispatch(self, scope: Scope, receive: Receive, send: Send) -> None:
        target = self.models.infer.get(scope["path"]) if scope["method"] == "POST" else None
        if target is None:
            await self.routes(scope, receive, send)
            return
        scope["pattern"] = target.pattern
        try:
            response = await infer(self.server, target.served, scope, receive)
        except (HyperfrontError, MemoryError) as error:
            refused = failures.reply(error)
            response = Response(refused.status_code, refused.raw_headers, bytes(refused.body))
        except Exception:
            await failures.broken()(scope, receive, send)
            raise
        await send({"type": "http.response.start", "status": response.status, "headers": response.headers})
        await send({"type": "http.response.body", "body": response.body})

    @asynccontextmanager
    async def _living(self, app: Any) -> AsyncIterator[None]:
        watching = asyncio.create_task(self._watch())
        self.server.ready = True
        yield
        self.server.ready = False
        watching.cancel()
        await self.models.close()
        self.server.close()
        logs.event("stopped", models=[*self.models.by_name])

    async def _watch(self) -> None:
        """Update the counts of this worker regularly, since another worker may answer for all."""
        while True:
            self.server.metrics.caches([service.cache for service in self.models.services if service.cache])
            await asyncio.sleep(1)


def create_app(*services: Service, settings: ServiceOptions = ServiceOptions()) -> Application:  # noqa: B008 (frozen)
    """Make the ASGI application of ``services``."""
    return Application(services, settings)
