"""Responses of both servers: small ones leave in one write, and the others as uvicorn writes them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
import uvicorn
from uvicorn.server import ServerState

from hyperfront.apps.shared.listening import uvicorn_options
from hyperfront.apps.shared.responses import SMALL

GET = b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"


class Transport(asyncio.Transport):
    def __init__(self) -> None:
        super().__init__()
        self.written: list[bytes] = []
        self.ended = False

    def write(self, data: Any) -> None:
        self.written.append(bytes(data))

    def is_closing(self) -> bool:
        return self.ended

    def close(self) -> None:
        self.ended = True

    def pause_reading(self) -> None:
        pass

    def resume_reading(self) -> None:
        pass


def answered(request: bytes, *messages: dict[str, Any], before: Callable[[Any], None] = lambda protocol: None) -> Any:
    """The transport, after an application has answered the request with these messages."""

    async def app(scope: Any, receive: Any, send: Any) -> None:
        for message in messages:
            await send(message)

    async def run() -> Transport:
        config = uvicorn.Config(app, lifespan="off", **uvicorn_options())
        config.load()
        protocol = config.http_protocol_class(config=config, server_state=ServerState(), app_state={})
        transport = Transport()
        protocol.connection_made(transport)
        protocol.data_received(request)
        before(protocol)
        await asyncio.gather(*protocol.tasks)
        protocol.connection_lost(ConnectionError())
        return transport

    return asyncio.run(run())


def start(*headers: tuple[bytes, bytes]) -> dict[str, Any]:
    return {"type": "http.response.start", "status": 200, "headers": list(headers)}


def rest(body: bytes, *, more: bool = False) -> dict[str, Any]:
    return {"type": "http.response.body", "body": body, "more_body": more}


def length(body: bytes) -> tuple[bytes, bytes]:
    return b"content-length", b"%d" % len(body)


def test_a_small_response_leaves_in_one_write() -> None:
    found = answered(GET, start(length(b"abc"), (b"x-a", b"\tb\xff")), rest(b"abc"))
    assert found.written == [b"HTTP/1.1 200 OK\r\ncontent-length: 3\r\nx-a: \tb\xff\r\n\r\nabc"]
    assert not found.ended


def test_a_connection_that_ends_says_so_and_ends() -> None:
    asked = GET.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n")
    found = answered(asked, start(length(b"abc")), rest(b"abc"))
    assert found.written == [b"HTTP/1.1 200 OK\r\ncontent-length: 3\r\nconnection: close\r\n\r\nabc"]
    assert found.ended


LARGE = b"a" * (SMALL + 1)
OTHERS = {
    "large": (GET, [start(length(LARGE)), rest(LARGE)], LARGE),
    "parts": (GET, [start(length(b"abc")), rest(b"a", more=True), rest(b"bc")], b"abc"),
    "chunks": (GET, [start(), rest(b"abc")], b"3\r\nabc\r\n0\r\n\r\n"),
    "no body": (GET.replace(b"GET", b"HEAD"), [start(length(b"abc")), rest(b"abc")], b""),
}


@pytest.mark.parametrize("case", OTHERS)
def test_other_responses_are_the_same_as_by_uvicorn(case: str) -> None:
    request, messages, body = OTHERS[case]
    head, _, found = b"".join(answered(request, *messages).written).partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 200 OK\r\n") and found == body


WRONG = {
    "a line in a header": [start(length(b"a"), (b"x-a", b"b\r\nx-b: c")), rest(b"a")],
    "a control character": [start(length(b"a"), (b"x-a", b"\x01")), rest(b"a")],
    "a body that is too long": [start(length(b"a")), rest(b"ab")],
    "a body that is missing": [start(length(b"a"))],
    "a body before its head": [rest(b"a")],
}


@pytest.mark.parametrize("case", WRONG)
def test_a_wrong_response_never_looks_like_a_right_one(case: str) -> None:
    found = answered(GET, *WRONG[case])
    assert b"x-b" not in b"".join(found.written)
    assert not b"".join(found.written).endswith(b"\r\n\r\na")
    assert found.ended


def test_nothing_is_written_for_a_client_that_is_gone() -> None:
    found = answered(GET, start(length(b"abc")), rest(b"abc"), before=lambda p: p.connection_lost(ConnectionError()))
    assert found.written == []
