"""Sockets, ports, and the options of the uvicorn server on them."""

from __future__ import annotations

import socket
from functools import partial
from typing import Any

from hyperfront.apps.shared.connections import ConnectionLimits, Connections
from hyperfront.apps.shared.protocol import BoundedProtocol
from hyperfront.errors import HyperfrontError


def uvicorn_options(limits: ConnectionLimits = ConnectionLimits()) -> dict[str, Any]:  # noqa: B008 (frozen)
    """uvicorn's options for one server: bounded connections and headers, no WebSockets, no access log, no banner."""
    return {
        "http": partial(BoundedProtocol, Connections(limits)),
        "timeout_keep_alive": limits.idle_seconds,
        "ws": "none",
        "log_config": None,
        "access_log": False,
        "server_header": False,
        "proxy_headers": False,
    }


def listen(host: str, port: int, *, tries: int = 1) -> socket.socket:
    """Open a socket at the port, or at the first free port of the next ``tries``; 0 means any free port."""
    reason: OSError | None = None
    for candidate in range(port, port + (tries if port else 1)):
        try:
            family = socket.getaddrinfo(host, candidate, type=socket.SOCK_STREAM)[0][0]
            return socket.create_server((host, candidate), family=family, backlog=2048)
        except OSError as error:
            reason = error
    raise HyperfrontError(
        "the server cannot listen there",
        got=f"{host}:{port}: {reason.strerror if reason else ''}",
        fix="choose another --port or --host",
    )


def address(host: str, listener: socket.socket) -> str:
    """The URL of a server on the socket."""
    return f"http://{f'[{host}]' if ':' in host else host}:{listener.getsockname()[1]}"
