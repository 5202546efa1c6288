"""Requests with mutated methods, paths, headers, queries and bodies: in the process, and over sockets."""

from __future__ import annotations

import asyncio
import gzip
import logging
import os
import warnings
from contextlib import ExitStack
from random import Random
from typing import Any
from urllib.parse import quote

import numpy as np
import torch

import hyperfront as hf
from hyperfront.apps.explorer.server import application
from hyperfront.apps.explorer.session import Session
from hyperfront.apps.serve.app import create_app
from hyperfront.apps.serve.options import Limits, ServiceOptions
from hyperfront.apps.serve.service import Service, serve_model
from tests.fuzz import mutations, specimens
from tests.fuzz.campaign import FOREIGN, OWN_ERROR, REFUSED, RETURNED, Outcome, described

X = np.linspace(-1, 1, 6, dtype="<f4").reshape(2, 3)
INFER = {
    "id": "1",
    "inputs": [
        {"name": "x", "datatype": "FP32", "shape": [2, 3], "data": X.tolist()},
        {"name": "ray", "datatype": "FP32", "shape": [2], "data": [0.2, 0.8]},
    ],
    "outputs": [{"name": "output"}],
}
BINARY = {
    "inputs": [
        {"name": "x", "datatype": "FP32", "shape": [2, 3], "parameters": {"binary_data_size": X.nbytes}},
        {"name": "ray", "datatype": "FP32", "shape": [2], "data": [0.2, 0.8]},
    ],
    "parameters": {"binary_data_output": True},
}
SELECT = {"minimize": "a", "subject_to": {"b": 5.0}}
ROWS = {"rows": [{"age": 30, "group": "a"}], "ray": [0.5, 0.5]}
SERVE = (
    ("POST", "/v2/models/m/infer", INFER),
    ("POST", "/v2/models/m/versions/1/infer", INFER),
    ("POST", "/v1/select", SELECT),
    ("POST", "/v1/predict", ROWS),
    ("POST", "/v2/repository/index", {"ready": True}),
    *(
        ("GET", path, None)
        for path in ("/v2", "/v2/models/m", "/v2/models/m/ready", "/v2/models/m/config", "/v1/front")
    ),
    *(("GET", path, None) for path in ("/v2/health/live", "/v2/health/ready", "/metrics", "/docs", "/openapi.json")),
)
EXPLORE = (
    *(("GET", path, None) for path in ("/", "/api/front")),
    *(("GET", f"/api/{name}", None) for name in ("predict", "measure", "model")),
    ("POST", "/api/select", SELECT),
)
SLOW = {
    **dict.fromkeys(("/docs", "/", "/openapi.json", "/metrics", "/api/measure"), 0.05),
    **dict.fromkeys(("/v1/select", "/api/select"), 0.005),
}
"""Weights of the routes of several milliseconds, and of those of a tenth of a second."""
METHODS = ("GET", "POST", "PUT", "DELETE", "HEAD", "OPTIONS", "PATCH", "get", "X" * 30)
SEGMENTS = ("..", "%00", "%ff", "m", "1", "2", "v2", "é", "a" * 2000, "", "{name}", "infer", "\ud800")
QUERIES = (
    "ray=0.5,0.5",
    "ray=0.2,0.8",
    "ray=1,0",
    "ray=nan,1",
    "ray=-1,2",
    "ray=",
    "ray=1e999,1",
    "ray=0.5",
    "ray=a,b",
    "",
)
HEADERS = (
    (b"content-type", (b"application/json", b"text/plain", b"\xff", b"")),
    (b"content-encoding", (b"gzip", b"deflate", b"br", b"identity", b"gzip, gzip", b"x")),
    (b"accept-encoding", (b"gzip", b"*", b"gzip;q=x", b"\xff")),
    (b"inference-header-content-length", (b"0", b"-1", b"10", b"99999999999", b"x", b"1e3", b"\xb2")),
    (b"content-length", (b"0", b"5", b"-1", b"x", b"99999999999999999999")),
    (b"host", (b"localhost", b"evil.example", b"", b"[::1", b"\xff")),
    (b"x-request-id", (b"1", b"\xff" * 200, b"", b"a\tb")),
    (b"authorization", (b"Bearer k", b"Basic", b"Bearer \xff")),
    (b"sec-fetch-site", (b"cross-site", b"x")),
    (b"x" * 3000, (b"y" * 3000,)),
)


class Request:
    """One request as parts."""

    def __init__(self, draw: Random, routes: tuple[Any, ...]):
        weights = [SLOW.get(path, 3.0 if method == "POST" else 0.3) for method, path, _ in routes]
        self.method, self.path, document = draw.choices(routes, weights)[0]
        self.route = f"{self.method} {self.path}"
        self.query, self.headers = "", [(b"host", b"localhost"), (b"content-type", b"application/json")]
        if self.path.startswith("/api/") and document is None:
            self.query = draw.choice(QUERIES) if draw.random() < 0.9 else str(draw.choice(mutations.VALUES))
        self.body = b"" if document is None else self._body(draw, document)
        if draw.random() < 0.1:
            self.method = draw.choice(METHODS)
        if draw.random() < 0.1:
            parts = self.path.split("/")
            parts[draw.randrange(len(parts))] = draw.choice(SEGMENTS)
            self.path = "/".join(parts) or "/"
        for _ in range(draw.choice((0, 0, 0, 1, 1, 3))):
            name, values = draw.choice(HEADERS)
            self.headers.append((name, draw.choice(values)))

    def _body(self, draw: Random, document: Any) -> bytes:
        blob = b""
        if document is INFER and draw.random() < 0.3:
            document, blob = BINARY, X.tobytes()
        kind = draw.random()
        if kind > 0.1:
            document = mutations.of_json(draw, document)
        text = mutations.dumped(draw, document)
        if blob:
            length = len(text) if draw.random() < 0.9 else draw.randrange(2 * len(text))
            self.headers.append((b"inference-header-content-length", str(length).encode()))
        text += blob if draw.random() < 0.9 else blob[: draw.randrange(len(blob) + 1)]
        if kind > 0.8:
            text = mutations.of_bytes(draw, text)
        if draw.random() < 0.1:
            self.headers.append((b"content-encoding", b"gzip"))
            text = gzip.compress(text, 1)
            text = mutations.of_bytes(draw, text) if draw.random() < 0.5 else text
        return text


class Routes:
    """The family of requests in the process, to the server and to the explorer."""

    name, seconds, batch = "routes", 60.0, 5000

    def __init__(self, only: str = ""):
        self.only, self.owner = only, -1

    def prepare(self) -> None:
        torch.set_num_threads(1)
        warnings.simplefilter("ignore")
        self.shared = specimens.Shared()
        service(self.shared, table=True)

    def start(self) -> None:
        """Make the applications in this process: their threads do not survive a fork."""
        self.owner, self.logged = os.getpid(), Logged()
        self.loop = asyncio.new_event_loop()
        self.loop.set_exception_handler(lambda loop, context: self.logged.lines.append(str(context)))
        limits = ServiceOptions(Limits(body_bytes=200_000, elements=4096, rows=100, seconds=10))
        tensors, table = (create_app(service(self.shared, table=table), settings=limits) for table in (False, True))
        for app in (tensors, table):
            app.server.ready = True
        session = Session(self.shared.model, self.shared.problem)
        explorer = application(session, lambda: {"title": "x"}, token="token")
        self.apps = ((tensors, SERVE, ""), (table, SERVE, ""), (explorer, EXPLORE, "/token"))

    def run(self, number: int) -> Outcome:
        if self.owner != os.getpid():
            self.start()
        draw = Random(number)
        app, routes, prefix = draw.choices(self.apps, (8, 4, 1))[0]
        request = Request(draw, routes)
        part = f"{'explore' if prefix else 'serve'} {request.route}"
        self.logged.lines.clear()
        try:
            status = self.loop.run_until_complete(answer(app, request, prefix, draw))
        except Exception as error:
            return Outcome(part, FOREIGN, described(error))
        return judged(part, status, self.logged.lines)


async def answer(app: Any, request: Request, prefix: str, draw: Random) -> int:
    """Send a request to an ASGI application, and return the status of its response."""
    path = (prefix if draw.random() < 0.98 else "/other") + request.path
    raw = quote(path, safe="/%{}", errors="replace").encode()
    scope = {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "scheme": "http",
        "root_path": "",
        "method": request.method,
        "path": path.encode("utf-8", "replace").decode(),
        "raw_path": raw,
        "query_string": request.query.encode("utf-8", "replace"),
        "headers": request.headers,
        "client": ("127.0.0.1", 1),
        "server": ("127.0.0.1", 80),
    }
    parts = [request.body] if draw.random() < 0.9 else [request.body[:7], b"", request.body[7:]]
    cut = draw.random() < 0.02
    statuses: list[int] = []

    async def receive() -> dict[str, Any]:
        if cut and len(parts) < 2:
            return {"type": "http.disconnect"}
        if parts:
            body = parts.pop(0)
            return {"type": "http.request", "body": body, "more_body": bool(parts) or cut}
        await asyncio.sleep(3600)
        return {}

    async def send(message: dict[str, Any]) -> None:
        if message["type"] == "http.response.start":
            statuses.append(message["status"])

    await app(scope, receive, send)
    return statuses[0] if statuses else 0


def judged(part: str, status: int, logged: list[str]) -> Outcome:
    """Judge a response by its status, and by what was logged meanwhile."""
    if status >= 500 and status != 503:
        return Outcome(part, FOREIGN, f"status {status} {logged[:1]}")
    if logged:
        return Outcome(part, FOREIGN, f"an exception was logged: {logged[0][:800]}")
    return Outcome(part, {0: OWN_ERROR, 200: RETURNED}.get(status, REFUSED))


class Logged(logging.Handler):
    """The errors and exceptions that are logged."""

    def __init__(self) -> None:
        super().__init__()
        self.lines: list[str] = []
        for name in (None, "uvicorn.error", "asyncio", "hyperfront"):
            logging.getLogger(name).addHandler(self)

    def emit(self, record: logging.LogRecord) -> None:
        if record.exc_info or record.levelno >= logging.ERROR:
            self.lines.append(f"{record.getMessage()[:200]} {record.exc_info and record.exc_info[1]!r}")


class Sockets:
    """The family of requests over sockets, as bytes that no library corrects."""

    name, seconds, batch = "sockets", 120.0, 2000

    def __init__(self, only: str = ""):
        self.only, self.owner = only, -1

    def prepare(self) -> None:
        torch.set_num_threads(1)
        self.shared = specimens.Shared()

    def run(self, number: int) -> Outcome:
        from tests.helpers.serving import serving

        if self.owner != os.getpid():
            self.owner, self.stack, self.logged = os.getpid(), ExitStack(), Logged()
            self.client = self.stack.enter_context(serving(service(self.shared, table=True)))
        draw = Random(number)
        request = Request(draw, SERVE)
        message = as_bytes(draw, request)
        self.logged.lines.clear()
        found = self.client.raw(message, wait=0.05 if b"chunked" in message else 0.5)
        status = int(found.split(b" ", 2)[1]) if found.startswith(b"HTTP/1") else 0
        return judged(f"socket {request.route}", status, self.logged.lines)


def as_bytes(draw: Random, request: Request) -> bytes:
    """The request as it travels, with a right length unless it has another one."""
    target = quote(request.path, safe="/%{}", errors="replace")
    lines = [f"{request.method} {target} HTTP/1.1".encode(), *(name + b": " + value for name, value in request.headers)]
    if not any(name == b"content-length" for name, _ in request.headers):
        lines.append(b"content-length: " + str(len(request.body)).encode())
    lines.append(b"connection: close")
    message = b"\r\n".join(lines) + b"\r\n\r\n" + request.body
    return mutations.of_bytes(draw, message) if draw.random() < 0.5 else message


def service(shared: specimens.Shared, *, table: bool) -> Service:
    """A service of tensors, or of a table whose columns have names."""
    if not table:
        return serve_model(shared.model, shared.problem, name="m", front=shared.front)
    front = hf.Front(shared.table_problem.objectives, hf.rays(3, shared.table_problem.m), torch.rand(3, 3).double())
    return serve_model(shared.table_model, shared.table_problem, name="m", front=front)
