"""The application: routes of the Open Inference Protocol v2, the front, metrics, and a page that explains them.

Handlers take the bare request, since FastAPI's handling of annotations takes longer than a small network, and its
errors are not those of the protocol. :mod:`~hyperfront.apps.serve.openapi` documents the routes instead.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from functools import partial
from typing import Any, TypeVar

import orjson
from fastapi import FastAPI, Request
from starlette.exceptions import HTTPException
from starlette.middleware.cors import CORSMiddleware
from starlette.responses import HTMLResponse, Response

from hyperfront import __version__
from hyperfront.apps.serve import describe, logs, openapi, page, replies, requests
from hyperfront.apps.serve.batching import Batcher
from hyperfront.apps.serve.gate import Gate
from hyperfront.apps.serve.large import LARGE, LargeWork
from hyperfront.apps.serve.metrics import Metrics
from hyperfront.apps.serve.options import ServiceOptions
from hyperfront.apps.serve.predictor import Outputs, Query
from hyperfront.apps.serve.rows import RowFormat
from hyperfront.apps.serve.service import Service
from hyperfront.apps.shared import choice, pages
from hyperfront.apps.shared.bodies import Bodies
from hyperfront.apps.shared.refusal import Refusal, headers, one_line
from hyperfront.errors import HyperfrontError
from hyperfront.front import Front

Result = TypeVar("Result")
VERSION = "1"
"""The version of the model; a server has one."""
MANY_ROWS = 256
"""Rows of a table from which the predictions are written beside the event loop."""
COPIES = 2
"""How often the numbers of a response are in memory: as outputs of the model, and as bytes to send."""


class ServerState:
    """A service with its queue, metrics and limits."""

    def __init__(self, service: Service, settings: ServiceOptions):
        self.service, self.settings, self.limits = service, settings, settings.limits
        self.metrics, self.bodies, self.large = Metrics(), Bodies(settings.limits), LargeWork()
        self.batcher = Batcher(
            service.predict,
            seconds=service.seconds,
            max_rows=None if service.separate else settings.batch_rows,
            observe=self.metrics.batch,
        )
        self.searches = ThreadPoolExecutor(1, thread_name_prefix="select")
        self.ready = False

    @asynccontextmanager
    async def lifespan(self, app: FastAPI) -> AsyncIterator[None]:
        watching = asyncio.create_task(self._watch())
        self.ready = True
        yield
        self.ready = False
        watching.cancel()
        await self.batcher.close()
        self.large.close()
        self.bodies.thread.shutdown()
        self.searches.shutdown(cancel_futures=True)
        logs.event("stopped", model=self.service.name)

    async def _watch(self) -> None:
        """Update the counts of this worker regularly, since another worker may answer for all."""
        while self.service.cache is not None:
            self.metrics.cache(self.service.cache)
            await asyncio.sleep(1)

    def check(self, request: Request) -> None:
        """Check that the path names our model, and its version if any."""
        name, version = request.path_params["name"], request.path_params.get("version", VERSION)
        if name != self.service.name:
            raise Refusal("unknown model", got=name[:80], expected=self.service.name, status=404)
        if version != VERSION:
            raise Refusal("unknown version of the model", got=version[:80], expected=VERSION, status=404)

    async def _within(self, deadline: float, work: Awaitable[Result]) -> Result:
        try:
            async with asyncio.timeout_at(deadline):
                return await work
        except TimeoutError:
            raise Refusal(f"no answer within {self.limits.seconds:g} s", status=503) from None

    async def infer(self, request: Request) -> Response:
        """Read, predict, answer."""
        self.check(request)
        deadline = asyncio.get_running_loop().time() + self.limits.seconds
        with self.bodies.reader() as reader:
            length = request.headers.get(requests.HEADER_LENGTH)
            most = self.limits.json_bytes if length is None else None
            body = await reader.read(request, most, "send tensors as binary data")
            decode = partial(requests.decode, self.service, self.limits, body, length)
            asked = await self._within(deadline, self.large.run(decode)) if len(body) > LARGE else decode()
            request.scope["notes"] = {"rows": asked.query.rows, "rays": len(asked.query.rays)}
            expected = asked.query.rows * self.service.row_bytes
            reader.hold(COPIES * expected)
            outputs = await self._within(deadline, self.batcher.submit(asked.query))
            found = sum(output.nbytes for output in outputs)
            reader.hold(COPIES * max(0, found - expected))  # some sizes were free
            if self.service.decider is not None and any(index >= len(outputs) for index, _ in asked.outputs):
                outputs = (*outputs, *self.service.decider(outputs))
            respond = partial(self._respond, asked, outputs, request.headers.get("accept-encoding", ""))
            return await self._within(deadline, self.large.run(respond)) if found > LARGE else respond()

    def _respond(self, asked: requests.Asked, outputs: Outputs, accepted: str) -> Response:
        reply = replies.encode(self.service, VERSION, asked, outputs, self.limits.json_elements)
        content, encoding = replies.pack(reply.body, accepted)
        found = {} if encoding is None else {"content-encoding": encoding}
        if reply.header_length is not None:
            found[requests.HEADER_LENGTH] = str(reply.header_length)
        kind = "application/json" if reply.header_length is None else "application/octet-stream"
        return Response(content, media_type=kind, headers=found)

    async def select(self, request: Request, select: Callable[[choice.Choice], dict[str, Any]]) -> dict[str, Any]:
        """Find the operating point that the body asks for."""
        deadline = asyncio.get_running_loop().time() + self.limits.seconds
        with self.bodies.reader() as reader:
            asked = choice.parse(await reader.read(request, choice.BODY_BYTES))
        find = partial(select, asked)
        return await self._within(deadline, asyncio.get_running_loop().run_in_executor(self.searches, find))

    async def predict(self, request: Request, table: RowFormat) -> Response:
        """Predict rows of a table."""
        deadline = asyncio.get_running_loop().time() + self.limits.seconds
        with self.bodies.reader() as reader:
            body = await reader.read(request, self.limits.json_bytes, "send fewer rows at a time")
            decode = partial(table.decode, body, self.limits, partial(requests.read_rays, self.service, None))
            query = await self._within(deadline, self.large.run(decode)) if len(body) > LARGE else decode()
            request.scope["notes"] = {"rows": query.rows, "rays": len(query.rays)}
            outputs = await self._within(deadline, self.batcher.submit(query))
            respond = partial(_predictions, table, query, outputs)
            return await self._within(deadline, self.large.run(respond)) if query.rows > MANY_ROWS else respond()


def create_app(service: Service, settings: ServiceOptions = ServiceOptions()) -> FastAPI:  # noqa: B008 (frozen)
    """Make the ASGI application of ``service``."""
    server = ServerState(service, settings)
    app = FastAPI(
        title=f"hyperfront: {service.name}",
        version=__version__,
        description=describe.overview(service),
        lifespan=server.lifespan,
        redirect_slashes=False,
        docs_url=None,  # FastAPI's pages load scripts from a CDN
        redoc_url=None,
    )
    app.state.server = server
    _models(app, server)  # first, since routes are tried in turn
    _health(app, server)
    _front(app, server)
    _errors(app)
    app.add_middleware(Gate, settings=settings, metrics=server.metrics)
    if settings.cors:
        exposed = ["Inference-Header-Content-Length", "X-Request-ID"]
        app.add_middleware(
            CORSMiddleware,
            allow_origins=settings.cors,
            allow_methods=["GET", "POST"],
            allow_headers=["*"],
            expose_headers=exposed,
        )
    return app


def _json(document: Any, status: int = 200) -> Response:
    return Response(orjson.dumps(document), status, media_type="application/json")


def _predictions(table: RowFormat, query: Query, outputs: Outputs) -> Response:
    return _json(table.answer(query, outputs))


def _health(app: FastAPI, server: ServerState) -> None:
    shown = partial(openapi.route, server.service)

    @app.get("/v2/health/live", **shown("live"))
    async def live() -> Response:
        return _json({"live": True})

    @app.get("/v2/health/ready", **shown("ready"))
    async def ready() -> Response:
        return _json({"ready": server.ready}, 200 if server.ready else 503)

    @app.get("/v2", **shown("server"))
    async def metadata() -> Response:
        return _json({"name": "hyperfront", "version": __version__, "extensions": describe.EXTENSIONS})

    @app.get("/metrics", **shown("metrics"))
    async def metrics() -> Response:
        text, kind = server.metrics.text()
        return Response(text, media_type=kind)

    @app.get("/", include_in_schema=False)
    @app.get("/docs", include_in_schema=False)
    async def docs() -> HTMLResponse:
        return HTMLResponse(page.render(app.openapi()), headers=pages.headers())


def _models(app: FastAPI, server: ServerState) -> None:
    shown = partial(openapi.route, server.service)

    async def metadata(request: Request) -> Response:
        server.check(request)
        return _json(describe.metadata(server.service, VERSION))

    async def ready(request: Request) -> Response:
        server.check(request)
        return _json({"name": server.service.name, "ready": server.ready}, 200 if server.ready else 503)

    async def config(request: Request) -> Response:
        server.check(request)
        return _json(describe.config(server.service, server.settings))

    for form in ("/v2/models/{name}", "/v2/models/{name}/versions/{version}"):
        app.post(f"{form}/infer", **shown("infer", form))(server.infer)
        app.get(form, **shown("metadata", form))(metadata)
        app.get(f"{form}/ready", **shown("model_ready", form))(ready)
        app.get(f"{form}/config", **shown("config", form))(config)

    @app.post("/v2/repository/index", **shown("index"))
    async def index(request: Request) -> Response:
        with server.bodies.reader() as reader:
            requests.check_index(await reader.read(request, choice.BODY_BYTES), server.limits)
        state = "READY" if server.ready else "UNAVAILABLE"
        return _json([{"name": server.service.name, "version": VERSION, "state": state, "reason": ""}])


def _front(app: FastAPI, server: ServerState) -> None:
    shown = partial(openapi.route, server.service)

    def front() -> Front:
        if server.service.front is None:
            raise Refusal("the run has no front", fix="serve the folder of a run with validation data", status=404)
        return server.service.front

    @app.get("/v1/front", **shown("front"))
    async def show() -> Response:
        return _json(front().document())

    @app.post("/v1/select", **shown("select"))
    async def select(request: Request) -> Response:
        find = server.service.select
        if find is None:
            raise Refusal("the run has no front", fix="serve the folder of a run with validation data", status=404)
        return _json(await server.select(request, find))

    @app.post("/v1/predict", **shown("predict"))
    async def predict(request: Request) -> Response:
        if server.service.table is None:
            raise Refusal(
                "this model does not take rows with column names",
                fix="POST /v2/models/NAME/infer with tensors; hf.Presentation(encode=...) reads columns",
                status=404,
            )
        return await server.predict(request, server.service.table)


def _errors(app: FastAPI) -> None:
    """Every error has the body ``{"error": reason}``, as clients of the protocol expect."""

    @app.exception_handler(HyperfrontError)
    async def refused(request: Request, error: HyperfrontError) -> Response:
        reply = _json({"error": one_line(error)}, getattr(error, "status", 400))
        reply.headers.update(headers(error))
        return reply

    @app.exception_handler(MemoryError)
    async def too_much(request: Request, error: MemoryError) -> Response:
        return await refused(request, Refusal("there is not enough memory for this request", status=503, retry_after=1))

    @app.exception_handler(HTTPException)
    async def not_found(request: Request, error: HTTPException) -> Response:
        reply = _json({"error": f"{error.detail}: {request.method} {request.url.path}"}, error.status_code)
        reply.headers.update(error.headers or {})
        return reply

    @app.exception_handler(Exception)
    async def broken(request: Request, error: Exception) -> Response:
        return _json({"error": "internal error; see the log of the server"}, 500)
