"""The page on localhost: a FastAPI application around a :class:`~hyperfront.apps.explorer.session.Session`."""

from __future__ import annotations

import atexit
import math
import secrets
import threading
from collections.abc import Callable, Sequence
from typing import Any

import torch
import uvicorn
from fastapi import FastAPI, Request, Response
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import HTMLResponse, JSONResponse
from torch import Tensor

from hyperfront import preferences
from hyperfront.apps.explorer.document import measured
from hyperfront.apps.explorer.fence import Fence
from hyperfront.apps.explorer.page import page
from hyperfront.apps.explorer.session import Session
from hyperfront.apps.shared import choice, pages
from hyperfront.apps.shared.bodies import Bodies, BodyLimits
from hyperfront.apps.shared.hosts import hosts_for
from hyperfront.apps.shared.listening import address, listen, uvicorn_options
from hyperfront.apps.shared.rays import numbers
from hyperfront.errors import HyperfrontError

NOTEBOOKS = "'self' http://localhost:* http://127.0.0.1:* vscode-webview: vscode-file:"
"""Origins of notebooks on this machine, which show the page in a cell."""
TRIES = 20
"""Number of ports to try, starting at the given one."""
GRACE = 10
"""Seconds that open requests may take when the server stops."""


def application(
    session: Session, document: Callable[[], dict[str, Any]], *, token: str, hosts: Sequence[str] = ()
) -> FastAPI:
    """Make the application below ``/TOKEN/``, for requests to ``hosts`` (default: any)."""
    app = FastAPI(title="hyperfront explorer", docs_url=None, redoc_url=None, openapi_url=None)  # docs load a CDN
    bodies = Bodies(BodyLimits())
    app.add_middleware(Fence, token=token, hosts=hosts)

    @app.exception_handler(HyperfrontError)
    def refused(_: Request, error: HyperfrontError) -> JSONResponse:
        return JSONResponse({"what": error.what, "expected": str(error.expected or ""), "text": str(error)}, 422)

    @app.get("/")
    def start() -> HTMLResponse:
        return HTMLResponse(page(document()), headers=pages.headers(NOTEBOOKS) | {"Cache-Control": "no-store"})

    @app.get("/api/front")
    def front() -> dict[str, Any]:
        return measured(session.front)

    @app.get("/api/predict")
    def predict(ray: str) -> Any:
        return session.predict(parse(ray, session))

    @app.get("/api/measure")
    def measure(ray: str) -> dict[str, Any]:
        return measured(session.measure(parse(ray, session)))

    @app.post("/api/select")
    async def select(request: Request) -> dict[str, Any]:
        with bodies.reader() as reader:
            asked = choice.parse(await reader.read(dict(request.scope["headers"]), request.receive, choice.BODY_BYTES))
        return _finite((await run_in_threadpool(session.select, asked)).document())

    @app.get("/api/intervals")
    def intervals(ray: str) -> dict[str, Any]:
        return _finite(session.uncertainty(parse(ray, session)))

    @app.get("/api/model")
    def model(ray: str) -> Response:
        chosen = parse(ray, session)
        name = "-".join(f"{value:.3g}" for value in chosen.tolist())
        headers = {"Content-Disposition": f'attachment; filename="model-{name}.safetensors"'}
        return Response(session.plain(chosen), media_type="application/octet-stream", headers=headers)

    return app


def _finite(found: Any) -> Any:
    """Replace numbers that JSON cannot hold by null."""
    if isinstance(found, dict):
        return {key: _finite(value) for key, value in found.items()}
    if isinstance(found, list):
        return [_finite(value) for value in found]
    return None if isinstance(found, float) and not math.isfinite(found) else found


def parse(text: str, session: Session) -> Tensor:
    """A ray ``[m]`` from ``"0.3,0.7"``."""
    objectives = session.model.objectives
    ray = torch.tensor(numbers(text, objectives), dtype=torch.float64)
    if 0 < ray.max() < torch.inf:  # typed or rounded numbers may not sum to 1
        ray = ray / ray.max()
        ray = ray / ray.sum()
    return preferences.validate(ray, len(ray), objectives)[0]


class PageServer:
    """uvicorn on a port of its own, in the foreground (:meth:`run`) or in a thread (:meth:`start`).

    The page lives below a random path, so that other users and other pages of this machine cannot find it.
    """

    def __init__(self, session: Session, document: Callable[[], dict[str, Any]], *, host: str, port: int = 0):
        token = secrets.token_urlsafe(16)
        app = application(session, document, token=token, hosts=hosts_for(host))
        self.socket = listen(host, port, tries=TRIES)
        self.url = f"{address(host, self.socket)}/{token}/"
        limits: dict[str, Any] = {"lifespan": "off", "timeout_graceful_shutdown": GRACE}
        self.server = uvicorn.Server(uvicorn.Config(app, log_level="warning", **limits, **uvicorn_options()))
        self.thread: threading.Thread | None = None

    def run(self) -> None:
        """Serve until Ctrl-C."""
        self.server.run(sockets=[self.socket])

    def start(self) -> None:
        """Serve in a thread until :meth:`close` or the end of the interpreter, which waits for open requests."""
        self.thread = threading.Thread(target=self.run, name="hyperfront-explore", daemon=True)
        self.thread.start()
        atexit.register(self.close)

    def close(self) -> None:
        """Stop, and free the port."""
        atexit.unregister(self.close)
        self.server.should_exit = True
        if self.thread:
            self.thread.join(timeout=GRACE + 5)
        self.socket.close()
