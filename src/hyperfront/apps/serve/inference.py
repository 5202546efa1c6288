"""Predictions, from the bytes of a request to the bytes of its response.

These requests are found by their path and answered without the router and the objects of the web framework, which take
several times as long as a small network.
"""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

from starlette.types import Receive, Scope

from hyperfront.apps.serve import replies, requests
from hyperfront.apps.serve.large import LARGE
from hyperfront.apps.serve.models import Served
from hyperfront.apps.serve.predictor import Outputs, Query
from hyperfront.apps.serve.service import Service
from hyperfront.apps.serve.state import ServerState
from hyperfront.apps.shared.protocol import arrived
from hyperfront.apps.shared.refusal import Refusal

COPIES = 2
"""How often the numbers of a response are in memory: as outputs of the model, and as bytes to send."""
HEADER_LENGTH = requests.HEADER_LENGTH.encode()
_JSON = [(b"content-type", b"application/json")]
_BINARY = [(b"content-type", b"application/octet-stream")]


class Response(NamedTuple):
    """A response to send."""

    status: int
    headers: list[tuple[bytes, bytes]]
    body: bytes


async def infer(server: ServerState, served: Served, scope: Scope, receive: Receive) -> Response:
    """Read, predict, answer."""
    service, limits, deadline = served.service, server.limits, server.deadline()
    start = deadline - limits.seconds
    headers = dict(scope["headers"])
    with server.bodies.reader() as reader:
        length = headers[HEADER_LENGTH].decode("latin-1") if HEADER_LENGTH in headers else None
        most = limits.json_bytes if length is None else None
        fix = "send tensors as binary data"
        body = await reader.read(headers, receive, most, fix, arrived=arrived(scope))
        if len(body) > LARGE:
            decode = partial(requests.decode, service, limits, body, length)
            asked = await server.within(deadline, server.large.run(decode))
        else:
            asked = requests.decode(service, limits, body, length)
        query, deadline = asked.query, min(deadline, start + asked.seconds)
        scope["notes"] = {"rows": query.rows, "rays": len(query.rays)}
        expected = query.rows * service.row_bytes
        reader.hold(COPIES * expected)
        outputs = await predict(server, served, query, deadline)
        found = sum([output.nbytes for output in outputs])
        if found > expected:
            reader.hold(COPIES * (found - expected))  # some sizes were free
        if service.decider is not None and any(index >= len(outputs) for index, _ in asked.outputs):
            outputs = (*outputs, *service.decider(outputs))
        accepted, most = headers.get(b"accept-encoding", b"").decode("latin-1"), limits.json_elements
        if found <= LARGE:
            return _respond(service, asked, outputs, accepted, most)
        return await server.within(
            deadline, server.large.run(partial(_respond, service, asked, outputs, accepted, most))
        )


async def predict(server: ServerState, served: Served, query: Query, deadline: float) -> Outputs:
    """Return the outputs of the query, or refuse it once its deadline has passed."""
    try:
        return await served.batcher.submit(query, deadline)
    except TimeoutError:
        raise Refusal("no answer before the deadline of the request", status=503) from None


def _respond(service: Service, asked: requests.Asked, outputs: Outputs, accepted: str, most: int) -> Response:
    reply = replies.encode(service, asked, outputs, most)
    content, encoding = replies.pack(reply.body, accepted)
    headers = [*(_JSON if reply.header_length is None else _BINARY), (b"content-length", b"%d" % len(content))]
    if encoding is not None:
        headers.append((b"content-encoding", encoding.encode()))
    if reply.header_length is not None:
        headers.append((HEADER_LENGTH, b"%d" % reply.header_length))
    return Response(200, headers, content)
