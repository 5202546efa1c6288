"""The page on localhost: a FastAPI application around a :class:`~hyperfront.apps.explorer.session.Session`."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from hyperfront import preferences
from hyperfront.apps.explorer.document import measured
from hyperfront.apps.explorer.page import page
from hyperfront.apps.explorer.session import Session
from hyperfront.errors import HyperfrontError

LOCAL = ("localhost", "127.0.0.1", "[::1]")


def application(session: Session, document: Callable[[], dict[str, Any]], *, anywhere: bool = False) -> Any:
    """The routes. Unless ``anywhere``, requests must be addressed to this machine, so that no foreign page that
    points its own name here can ask (DNS rebinding)."""
    try:
        from fastapi import Body, FastAPI, Request, Response
        from fastapi.responses import HTMLResponse, JSONResponse
        from starlette.middleware.trustedhost import TrustedHostMiddleware
    except ImportError:
        raise HyperfrontError(
            "the explorer needs FastAPI and uvicorn", fix="pip install 'hyperfront[explore]'"
        ) from None

    app = FastAPI(title="hyperfront explorer", docs_url=None, redoc_url=None, openapi_url=None)  # docs load a CDN
    if not anywhere:
        app.add_middleware(TrustedHostMiddleware, allowed_hosts=[*LOCAL, "::1"])

    @app.exception_handler(HyperfrontError)
    def refused(_: Request, error: HyperfrontError) -> JSONResponse:
        return JSONResponse({"what": error.what, "expected": str(error.expected or ""), "text": str(error)}, 422)

    @app.get("/")
    def start() -> HTMLResponse:
        return HTMLResponse(page(document()), headers={"Cache-Control": "no-store"})

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
    def select(minimize: str = Body(), limits: dict[str, tuple[str, float]] = Body()) -> dict[str, Any]:  # noqa: B008
        return measured(session.select(minimize, limits))

    @app.get("/api/model")
    def model(ray: str) -> Response:
        chosen = parse(ray, session)
        name = "-".join(f"{value:.3g}" for value in chosen.tolist())
        headers = {"Content-Disposition": f'attachment; filename="model-{name}.safetensors"'}
        return Response(session.plain(chosen), media_type="application/octet-stream", headers=headers)

    return app


def parse(text: str, session: Session) -> Tensor:
    """A ray ``[m]`` from ``"0.3,0.7"``."""
    try:
        numbers = [float(part) for part in text.split(",")]
    except ValueError:
        numbers = []
    objectives = session.model.objectives
    if len(numbers) != len(objectives):
        expected = f"{len(objectives)} numbers, for {', '.join(objectives)}"
        raise HyperfrontError("this is no ray", got=text[:80], expected=expected)
    ray = torch.tensor(numbers, dtype=torch.float64)
    if 0 < ray.max() < torch.inf:  # numbers typed or rounded need not sum to 1
        ray = ray / ray.max()
        ray = ray / ray.sum()
    return preferences.validate(ray, len(ray), objectives)[0]


class Server:
    """uvicorn on a port of its own, in the foreground (:meth:`run`) or beside (:meth:`start`)."""

    def __init__(self, app: Any, *, host: str = "127.0.0.1", port: int = 0):
        import uvicorn

        self.socket = _listen(host, port)
        port = self.socket.getsockname()[1]
        self.url = f"http://{f'[{host}]' if ':' in host else host}:{port}/"
        # no event loop or protocol beyond plain HTTP: nothing else is installed with it
        config = uvicorn.Config(app, log_level="warning", ws="none", lifespan="off", access_log=False)
        self.server = uvicorn.Server(config)
        self.thread: threading.Thread | None = None

    def run(self) -> None:
        """Until Ctrl-C."""
        self.server.run(sockets=[self.socket])

    def start(self) -> None:
        self.thread = threading.Thread(target=self.run, name="hyperfront-explore", daemon=True)
        self.thread.start()

    def close(self) -> None:
        self.server.should_exit = True
        if self.thread:
            self.thread.join(timeout=10)
        self.socket.close()


def _listen(host: str, port: int) -> socket.socket:
    """A socket at the port, or at the first free one of the twenty after it; any free one for 0."""
    family, reason = socket.AF_INET6 if ":" in host else socket.AF_INET, None
    for candidate in range(port, port + (20 if port else 1)):
        taken = socket.socket(family)
        taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            taken.bind((host, candidate))
            taken.listen()
            return taken
        except OSError as error:
            taken.close()
            reason = error
    raise HyperfrontError("no port to listen at", got=f"{host}:{port}: {reason}", fix="choose another with --port")
