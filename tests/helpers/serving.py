"""A server in a thread of the test process, and a plain way to talk to it."""

from __future__ import annotations

import http.client
import json
import socket
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
import uvicorn

import hyperfront as hf
from hyperfront.apps.serve.app import Application, create_app
from hyperfront.apps.serve.options import ServiceOptions
from hyperfront.apps.serve.service import Service, serve_model
from hyperfront.apps.serve.state import ServerState
from hyperfront.apps.serve.tensors import TensorMetadata
from hyperfront.apps.shared.connections import ConnectionLimits, Connections
from hyperfront.apps.shared.listening import uvicorn_options
from hyperfront.zoo.lenet import LeNet
from tests.helpers.waiting import LIMIT


def lenet() -> hf.ParetoModel:
    """LeNet with weights that depend on the ray a lot."""
    torch.manual_seed(0)
    model = hf.wrap(LeNet(), ["left", "right"], hidden=16).eval()
    with torch.no_grad():
        model.hypernet.heads.weight *= 5
    return model


def lenet_service(**options: Any) -> Service:
    return serve_model(lenet(), name="lenet", inputs=[TensorMetadata("x", "FP32", (1, 36, 36))], **options)


@contextmanager
def serving(
    service: Service,
    settings: ServiceOptions = ServiceOptions(),  # noqa: B008 (frozen)
    connections: ConnectionLimits = ConnectionLimits(),  # noqa: B008 (frozen)
    grace: int | None = None,
    others: Sequence[Service] = (),
    reopen: Callable[[], list[Service]] | None = None,
) -> Iterator[Client]:
    """A client of the services while they run; ``grace`` is the time for open requests at the end."""
    app = create_app(service, *others, settings=settings, reopen=reopen)
    options = uvicorn_options(connections)
    server = uvicorn.Server(uvicorn.Config(app, port=0, timeout_graceful_shutdown=grace, **options))
    thread = threading.Thread(target=server.run)
    thread.start()
    try:
        while not server.started:
            assert thread.is_alive()
            time.sleep(0.005)
        client = Client(server.servers[0].sockets[0].getsockname()[1], app.server, options["http"].args[0])
        client.app = app
        yield client
    finally:
        server.should_exit = True
        thread.join(LIMIT)
    assert not thread.is_alive()


class Client:
    """Requests as they are, without a library that would correct them."""

    def __init__(self, port: int, server: ServerState | None = None, connections: Connections | None = None):
        self.port, self.address, self.server, self.connections = port, f"127.0.0.1:{port}", server, connections

    app: Application

    def reload(self) -> None:
        """Reload the models, as SIGHUP does."""
        assert self.app.loop is not None
        self.app.loop.call_soon_threadsafe(self.app.reload)

    def raw(self, message: bytes, wait: float = LIMIT) -> bytes:
        """What comes back until the server closes, or has nothing to say for a while."""
        with socket.create_connection(("127.0.0.1", self.port), timeout=wait) as connection:
            connection.sendall(message)
            found = b""
            try:
                while part := connection.recv(65536):
                    found += part
                    if b"connection: close" not in found.lower() and b"\r\n\r\n" in found:
                        break
            except (TimeoutError, ConnectionResetError):
                pass
            return found

    def call(
        self, method: str, path: str, body: bytes | None = None, headers: dict[str, str] | None = None
    ) -> tuple[int, dict[str, str], bytes]:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=LIMIT)
        try:
            connection.request(method, path, body, headers or {})
            response = connection.getresponse()
            return response.status, {k.lower(): v for k, v in response.getheaders()}, response.read()
        finally:
            connection.close()

    def get(self, path: str, headers: dict[str, str] | None = None) -> tuple[int, Any]:
        status, _, body = self.call("GET", path, headers=headers)
        return status, json.loads(body)

    def post(self, path: str, document: Any, headers: dict[str, str] | None = None) -> tuple[int, Any]:
        kind = {"content-type": "application/json"}
        status, _, body = self.call("POST", path, json.dumps(document).encode(), kind | (headers or {}))
        return status, json.loads(body)
