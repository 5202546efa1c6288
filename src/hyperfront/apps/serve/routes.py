"""The routes beside predictions: health, models, front, metrics, and a page that explains all of them.

Handlers take the bare request, since the errors of FastAPI's annotations are not those of the protocol.
:mod:`~hyperfront.apps.serve.openapi` documents the routes instead.
"""

from __future__ import annotations

import asyncio
from functools import partial
from typing import Any

import orjson
from fastapi import FastAPI, Request
from starlette.exceptions import HTTPException
from starlette.responses import HTMLResponse, Response

from hyperfront import __version__
from hyperfront.apps.serve import describe, failures, openapi, page, requests
from hyperfront.apps.serve.inference import predict
from hyperfront.apps.serve.large import LARGE
from hyperfront.apps.serve.models import FORMS, Models, Served
from hyperfront.apps.serve.predictor import Outputs, Query
from hyperfront.apps.serve.rows import RowFormat
from hyperfront.apps.serve.service import Service
from hyperfront.apps.serve.state import ServerState
from hyperfront.apps.shared import choice, pages
from hyperfront.apps.shared.refusal import Refusal

MANY_ROWS = 256
"""Rows of a table from which the predictions are written beside the event loop."""


def make_routes(models: Models, server: ServerState) -> FastAPI:
    """Make the routes of these models."""
    app = FastAPI(
        title=f"hyperfront: {', '.join(models.by_name)}",
        version=__version__,
        description="\n\n".join(map(describe.overview, models.services)),
        redirect_slashes=False,
        docs_url=None,  # FastAPI's pages load scripts from a CDN
        redoc_url=None,
    )
    _models(app, models, server)  # first, since routes are tried in turn
    _health(app, models, server)
    _front(app, models, server)
    failures.handle(app)
    return app


def _json(document: Any, status: int = 200) -> Response:
    return Response(orjson.dumps(document), status, media_type="application/json")


def _health(app: FastAPI, models: Models, server: ServerState) -> None:
    shown = partial(openapi.route, models.services)

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


def _models(app: FastAPI, models: Models, server: ServerState) -> None:
    shown = partial(openapi.route, models.services)

    def find(request: Request) -> Service:
        return models.find(**request.path_params).service

    async def infer(request: Request) -> Response:
        find(request)
        raise HTTPException(404)  # the router ignores a line break at the end of a path

    async def metadata(request: Request) -> Response:
        service = find(request)
        return _json(describe.metadata(service, [*models.by_name[service.name]]))

    async def ready(request: Request) -> Response:
        return _json({"name": find(request).name, "ready": server.ready}, 200 if server.ready else 503)

    async def config(request: Request) -> Response:
        return _json(describe.config(find(request), server.settings))

    for form in FORMS:
        app.post(f"{form}/infer", **shown("infer", form))(infer)
        app.get(form, **shown("metadata", form))(metadata)
        app.get(f"{form}/ready", **shown("model_ready", form))(ready)
        app.get(f"{form}/config", **shown("config", form))(config)

    @app.post("/v2/repository/index", **shown("index"))
    async def index(request: Request) -> Response:
        with server.bodies.reader() as reader:
            body = await reader.read(dict(request.scope["headers"]), request.receive, choice.BODY_BYTES)
            requests.check_index(body, server.limits)
        state = {"state": "READY" if server.ready else "UNAVAILABLE", "reason": ""}
        return _json([{"name": service.name, "version": service.version, **state} for service in models.services])


def _front(app: FastAPI, models: Models, server: ServerState) -> None:
    shown = partial(openapi.route, models.services)

    @app.get("/v1/front", **shown("front"))
    async def show(request: Request) -> Response:
        service, deadline = models.chosen(request.query_params).service, server.deadline()
        if service.front is None:
            raise _no_front()
        found = service.front.document()
        if service.select is not None and request.query_params.get("intervals") not in (None, "false"):
            computed = asyncio.get_running_loop().run_in_executor(server.searches, service.select.intervals)
            found["uncertainty"] = await server.within(deadline, computed)
        return _json(found)

    @app.post("/v1/select", **shown("select"))
    async def select(request: Request) -> Response:
        find, deadline = models.chosen(request.query_params).service.select, server.deadline()
        if find is None:
            raise _no_front()
        with server.bodies.reader() as reader:
            body = await reader.read(dict(request.scope["headers"]), request.receive, choice.BODY_BYTES)
            asked = choice.parse(body)
        found = asyncio.get_running_loop().run_in_executor(server.searches, partial(find, asked))
        return _json(await server.within(deadline, found))

    @app.post("/v1/predict", **shown("predict"))
    async def predict_rows(request: Request) -> Response:
        served = models.chosen(request.query_params)
        if served.service.table is None:
            raise Refusal(
                "this model does not take rows with column names",
                fix="POST /v2/models/NAME/infer with tensors; hf.Presentation(encode=...) reads columns",
                status=404,
            )
        return await _predict(request, served, served.service.table, server)


def _no_front() -> Refusal:
    return Refusal("the run has no front", fix="serve the folder of a run with validation data", status=404)


async def _predict(request: Request, served: Served, table: RowFormat, server: ServerState) -> Response:
    """Predict rows of a table."""
    deadline, limits, headers = server.deadline(), server.limits, dict(request.scope["headers"])
    with server.bodies.reader() as reader:
        body = await reader.read(headers, request.receive, limits.json_bytes, "send fewer rows at a time")
        decode = partial(table.decode, body, limits, partial(requests.read_rays, served.service, None))
        query = await server.within(deadline, server.large.run(decode)) if len(body) > LARGE else decode()
        request.scope["notes"] = {"rows": query.rows, "rays": len(query.rays)}
        outputs = await predict(server, served, query, deadline)
        respond = partial(_predictions, table, query, outputs)
        return await server.within(deadline, server.large.run(respond)) if query.rows > MANY_ROWS else respond()


def _predictions(table: RowFormat, query: Query, outputs: Outputs) -> Response:
    return _json(table.answer(query, outputs))
