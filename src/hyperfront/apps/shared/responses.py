"""Responses: the head and a small body go out in one write.

uvicorn writes the head on its own, which costs a second system call, and searches every header twice.
"""

from __future__ import annotations

import re

from starlette.types import Message, Send
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, RequestResponseCycle

SMALL = 64 * 2**10
"""The most bytes of a body that is copied behind its head."""
_WELL_FORMED = re.compile(rb"[\t\r\n\x20-\x7e\x80-\xff]*")
_ELSEWHERE = frozenset((b"connection", b"transfer-encoding"))
"""Headers that uvicorn reads itself."""


class Sender:
    """Sends the messages of one response by ASGI. uvicorn sends whatever is not the usual case."""

    def __init__(self, cycle: RequestResponseCycle):
        self.cycle = cycle
        self.send: Send = cycle.send  # pyrefly: ignore[bad-assignment]
        self.head: Message | None = None

    async def __call__(self, message: Message) -> None:
        if message["type"] == "http.response.start" and not self.cycle.response_started:
            self.head = message  # until the body is there
            return
        head, self.head = self.head, None
        if head is not None:
            if self._at_once(head, message):
                return
            await self.send(head)
        await self.send(message)

    def _at_once(self, head: Message, message: Message) -> bool:
        """Send a whole response, if its body is small and its length known, and the client reads."""
        cycle, body = self.cycle, message.get("body", b"")
        if message.get("more_body") or len(body) > SMALL or message["type"] != "http.response.body":
            return False
        if cycle.disconnected or cycle.flow.write_paused or cycle.scope["method"] == "HEAD":
            return False
        text = _head(head["status"], [*cycle.default_headers, *head.get("headers", ())], len(body), cycle.keep_alive)
        if text is None:
            return False
        cycle.response_started = cycle.response_complete = True
        cycle.waiting_for_100_continue = False
        cycle.message_event.set()
        cycle.transport.write(text + body)
        if not cycle.keep_alive:
            cycle.transport.close()
        cycle.on_response()
        return True


def _head(status: int, headers: list[tuple[bytes, bytes]], length: int, keep_alive: bool) -> bytes | None:
    """The status line and the headers, or None if uvicorn has to read, complete or refuse them."""
    found = dict(headers)
    if found.get(b"content-length") != b"%d" % length or not _ELSEWHERE.isdisjoint(found):
        return None
    lines = [STATUS_LINE[status]]
    for name, value in headers:
        lines += (name, b": ", value, b"\r\n")
    lines.append(b"\r\n" if keep_alive else b"connection: close\r\n\r\n")
    text = b"".join(lines)
    ends = len(headers) + (2 if keep_alive else 3)
    right = text.count(b"\n") == text.count(b"\r") == ends and _WELL_FORMED.fullmatch(text)
    return text if right else None
