"""HTTP with bounded headers.

uvicorn's parser, httptools, keeps every header until the last one has arrived, and so before any key is checked. This
protocol counts what the parser keeps and answers 431 (Request Header Fields Too Large) beyond the limits.
"""

from __future__ import annotations

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

HEADER_BYTES = 64 * 2**10
"""The most bytes of a request's target and headers."""
HEADER_COUNT = 100
"""The most headers of a request, trailers included."""
_BODY = b'{"error": "the request has too many headers, or they are too large"}'
_REFUSAL = (
    b"HTTP/1.1 431 Request Header Fields Too Large\r\ncontent-type: application/json\r\nconnection: close\r\n"
    b"content-length: %d\r\n\r\n%s" % (len(_BODY), _BODY)
)


class BoundedHeaders(HttpToolsProtocol):
    """uvicorn's protocol, which closes a connection whose headers are too many or too large.

    The parser reports each header once it is complete. An unfinished header is seen only as bytes that arrive while the
    parser reports nothing, so these bytes are counted too. Up to one read of the socket more may be kept.
    """

    head_bytes = head_count = unreported = 0
    refused = False

    def data_received(self, data: bytes) -> None:
        if self.refused:
            return
        self.unreported += len(data)
        super().data_received(data)
        if self.unreported > HEADER_BYTES:
            self._refuse()

    def on_message_begin(self) -> None:
        self.head_bytes = self.head_count = self.unreported = 0
        super().on_message_begin()

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

    def on_body(self, body: bytes) -> None:
        self.unreported = 0
        if not self.refused:
            super().on_body(body)

    def on_chunk_header(self) -> None:
        self.unreported = 0

    def on_message_complete(self) -> None:
        self.unreported = 0
        if not self.refused:
            super().on_message_complete()

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
