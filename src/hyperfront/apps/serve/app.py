"""The application: the gate, then predictions, then the other routes; and models that can be replaced."""

from __future__ import annotations

import asyncio
import gc
import logging
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any

from fastapi import FastAPI
from starlette.middleware.cors import CORSMiddleware
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from hyperfront.apps.serve import failures, logs
from hyperfront.apps.serve.gate import Gate
from hyperfront.apps.serve.hangup import on_hangup
from hyperfront.apps.serve.inference import Response, infer
from hyperfront.apps.serve.models import Models, Target
from hyperfront.apps.serve.options import ServiceOptions
from hyperfront.apps.serve.routes import make_routes
from hyperfront.apps.serve.service import Service
from hyperfront.apps.serve.state import ServerState
from hyperfront.errors import HyperfrontError


class Application:
    """The ASGI application of a server."""

    def __init__(
        self, services: Sequence[Service], settings: ServiceOptions, reopen: Callable[[], list[Service]] | None = None
    ):
        self.server, self.reopen = ServerState(settings), reopen
        self.loop: asyncio.AbstractEventLoop | None = None
        self._reloading: asyncio.Task | None = None
        self._again = False
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
        """Answer a request. A reload waits until the old models have made their responses, not until they are read."""
        models, routes = self.models, self.routes
        target = models.infer.get(scope["path"]) if scope["method"] == "POST" else None
        left = models.enter()
        try:
            if target is None:

                async def leaving(message: Message) -> None:
                    left()
                    await send(message)

                await routes(scope, receive, leaving)
                return
            response = await self._infer(target, scope, receive)
        except Exception:
            if target is not None:
                await failures.broken()(scope, receive, send)
            raise
        finally:
            left()
        await send({"type": "http.response.start", "status": response.status, "headers": response.headers})
        await send({"type": "http.response.body", "body": response.body})

    async def _infer(self, target: Target, scope: Scope, receive: Receive) -> Response:
        scope["pattern"] = target.pattern
        try:
            return await infer(self.server, target.served, scope, receive)
        except (HyperfrontError, MemoryError) as error:
            refused = failures.reply(error)
            return Response(refused.status_code, refused.raw_headers, bytes(refused.body))

    @asynccontextmanager
    async def _living(self, app: Any) -> AsyncIterator[None]:
        self.loop, watching = asyncio.get_running_loop(), asyncio.create_task(self._watch())
        if self.reopen is not None:
            on_hangup(self.reload)
        self.server.ready = True
        yield
        self.server.ready = False
        watching.cancel()
        if self._reloading is not None:
            self._reloading.cancel()
        await self.models.close()
        self.server.close()
        logs.event("stopped", models=self.models.listed())

    def reload(self) -> None:
        """Begin to replace the models by those that are in the folders now."""
        if self._reloading is None or self._reloading.done():
            self._reloading = asyncio.create_task(self._reload())
        else:
            self._again = True

    async def _reload(self) -> None:
        """Open the models beside the event loop, then give them to all new requests.

        The old models answer the requests that began with them, and stay if the new ones cannot be opened.
        """
        assert self.reopen is not None
        self._again = True
        while self._again:
            self._again = False
            try:
                opened = Models(await asyncio.to_thread(self.reopen), self.server)
                routes = make_routes(opened, self.server)
            except Exception as error:
                logs.event("not reloaded", level=logging.ERROR, error=str(error))
                continue
            old, self.models, self.routes = self.models, opened, routes
            logs.event("reloaded", models=opened.listed())
            await old.retire()
            del old
            settle()

    async def _watch(self) -> None:
        """Update the counts of this worker regularly, since another worker may answer for all."""
        while True:
            self.server.metrics.caches([service.cache for service in self.models.services if service.cache])
            await asyncio.sleep(1)


def create_app(
    *services: Service,
    settings: ServiceOptions = ServiceOptions(),  # noqa: B008 (frozen)
    reopen: Callable[[], list[Service]] | None = None,
) -> Application:
    """Make the ASGI application of ``services``; ``reopen`` opens them again for a reload."""
    return Application(services, settings, reopen)


def settle() -> None:
    """Exclude the present objects from garbage collection, which would scan them many times.

    A full collection stops all requests: for 0.1 s, with the objects of the imported libraries.
    """
    gc.unfreeze()
    gc.collect()
    gc.freeze()
