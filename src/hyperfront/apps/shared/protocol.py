"""HTTP with bounds on headers and on waiting.

uvicorn's parser, httptools, keeps every header until the last one has arrived, and so before any key is checked. This
protocol counts what the parser keeps and answers 431 (Request Header Fields Too Large) beyond the limits. uvicorn also
waits without end for headers and for clients that do not read; this protocol tells
:class:`~hyperfront.apps.shared.connections.Connections` what it waits for.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from hyperfront.apps.shared.connections import Connections
from hyperfront.apps.shared.responses import Sender

HEADER_BYTES = 64 * 2**10
"""The most bytes of a request's target and headers."""
HEADER_COUNT = 100
"""The most headers of a request, trailers included."""
PIPELINED_BYTES = 64 * 2**10
"""The most bytes of a body that may arrive before the request in front of it is answered."""
_BODY = b'{"error": "the request has too many headers, or they are too large"}'
_REFUSAL = (
    b"HTTP/1.1 431 Request Header Fields Too Large\r\ncontent-type: application/json\r\nconnection: close\r\n"
    b"content-length: %d\r\n\r\n%s" % (len(_BODY), _BODY)
)


_CYCLE = "hyperfront.cycle"


def arrived(scope: Mapping[str, Any]) -> bool:
    """Whether the whole body of a request is here already, as with most small requests."""
    cycle = scope.get(_CYCLE)
    return cycle is not None and not cycle.more_body


class BoundedProtocol(HttpToolsProtocol):
    """uvicorn's protocol, which closes a connection with too many or too large headers, or a client that is too slow.

    The parser reports each header once it is complete. An unfinished header is seen only as bytes that arrive while the
    parser reports nothing, so these bytes are counted too. Up to one read of the socket more may be kept.
    """

    head_bytes = head_count = unreported = 0
    refused = False
    in_head = True

    def __init__(self, registry: Connections, **uvicorn: Any):
        super().__init__(**uvicorn)
        self.registry = registry

    def connection_made(self, transport: asyncio.Transport) -> None:
        super().connection_made(transport)
        self.registry.add(self, self.client[0] if self.client else "")

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self.registry.remove(self)

    def data_received(self, data: bytes) -> None:
        if self.refused:
            return
        self.unreported += len(data)
        super().data_received(data)
        if self.unreported > HEADER_BYTES:
            self._refuse()
        elif not self.in_head and self.cycle.more_body:
            self._watch()  # the rest of the body is still to come

    def on_message_begin(self) -> None:
        self.head_bytes = self.head_count = self.unreported = 0
        super().on_message_begin()
        self.in_head = True
        self._watch()

    def on_url(self, url: bytes) -> None:
        self._count(len(url))
        if not self.refused:
            super().on_url(url)

    def on_header(self, name: bytes, value: bytes) -> None:
        self.head_count += 1
        self._count(len(name) + len(value))
        if not self.refused:
            super().on_header(name, value)

    def on_headers_complete(self) -> None:
        self.unreported = 0
        if not self.refused:
            super().on_headers_complete()
            self.cycle.send = Sender(self.cycle)  # pyrefly: ignore[bad-assignment]
            self.scope[_CYCLE] = self.cycle  # pyrefly: ignore[bad-typed-dict-key]
            self.in_head = False

    def on_body(self, body: bytes) -> None:
        self.unreported = 0
        if not self.refused:
            super().on_body(body)
            if self.pipeline and len(self.cycle.body) > PIPELINED_BYTES:
                self.abort()  # uvicorn would keep it while the request before is answered

    def on_chunk_header(self) -> None:
        self.unreported = 0

    def on_message_complete(self) -> None:
        self.unreported = 0
        if not self.refused:
            super().on_message_complete()
            self.cycle.more_body = False
            self._watch()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        self._watch()

    def pause_writing(self) -> None:
        super().pause_writing()
        self.registry.leave(self)
        self._watch()

    def resume_writing(self) -> None:
        super().resume_writing()
        self.registry.read(self)
        self._watch()

    def unsent(self) -> int:
        return self.transport.get_write_buffer_size()

    def abort(self) -> None:
        self.transport.abort()

    def _watch(self) -> None:
        """Tell what this connection waits for: its client, or the server."""
        cycle, limits = self.cycle, self.registry.limits
        if self.flow.write_paused or self.transport.is_closing():
            self.registry.wait(self, limits.unread_seconds)
        elif cycle is not None and not cycle.response_complete:
            if cycle.more_body and not self.pipeline:
                self.registry.wait(self, limits.idle_seconds)  # the application has a limit of its own
            else:
                self.registry.work(self)
        elif self.in_head or cycle.more_body:
            self.registry.wait(self, limits.head_seconds)
        else:
            self.registry.wait(self, limits.idle_seconds)

    def _count(self, size: int) -> None:
        self.unreported = 0
        self.head_bytes += size
        if self.head_bytes > HEADER_BYTES or self.head_count > HEADER_COUNT:
            self._refuse()

    def _refuse(self) -> None:
        """Close the connection. Send an answer, unless an earlier request still waits for its own answer."""
        if self.refused:
            return
        self.refused = True
        if not self.transport.is_closing():
            if self.cycle is None or self.cycle.response_complete:
                self.transport.write(_REFUSAL)
            self.transport.close()
