"""Request bodies: bounded in size, in time, and in the memory of all bodies together."""

from __future__ import annotations

import asyncio
import threading
import zlib
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from types import TracebackType

from starlette.types import Receive

from hyperfront.apps.shared.refusal import Refusal
from hyperfront.errors import HyperfrontError

FREE = 64 * 2**10
"""Bytes of each request that do not count, so that small requests are answered while large ones hold the rest."""
SMALL_PACKED = 512
"""Most compressed bytes that are unpacked on the event loop. More go to a thread: they can grow a thousandfold."""
STEP = 2**18
"""Bytes that are unpacked at a time."""


@dataclass(frozen=True)
class BodyLimits:
    """Limits on the size and the time of request bodies."""

    body_bytes: int = 64 * 2**20
    """The most bytes of one body, both compressed and unpacked."""
    held_bytes: int = 256 * 2**20
    """The most bytes of all bodies and responses that one process holds at the same time."""
    seconds: float = 30.0
    """The longest time that a body may take to arrive."""

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            if not value > 0:
                raise HyperfrontError(f"the limit {name} is not positive", got=value)


class Bodies:
    """The bodies that one process holds, and the outputs that are made from them.

    ``with bodies.reader() as reader`` counts the memory of one request.
    One thread unpacks all large bodies: several would keep the event loop from running.
    """

    def __init__(self, limits: BodyLimits):
        self.limits, self.held = limits, 0
        self.thread = ThreadPoolExecutor(1, thread_name_prefix="unpack")
        self._lock = threading.Lock()

    def reader(self) -> Reader:
        return Reader(self)

    def reserve(self, size: int) -> None:
        """Count ``size`` more bytes, or refuse them."""
        with self._lock:
            if self.held + size > self.limits.held_bytes:
                raise Refusal(
                    "the server holds too many large requests and responses at the moment",
                    expected=f"at most {self.limits.held_bytes} bytes in all",
                    status=503,
                    retry_after=1,
                )
            self.held += size

    def release(self, size: int) -> None:
        with self._lock:
            self.held -= size


class Reader:
    """Reads the body of one request; its memory is released at the end of the ``with`` block."""

    def __init__(self, bodies: Bodies):
        self.bodies, self.size, self.reserved = bodies, 0, 0
        self.fix: str | None = None

    def __enter__(self) -> Reader:
        return self

    def __exit__(self, kind: type | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if self.reserved:
            self.bodies.release(self.reserved)

    async def read(
        self,
        headers: Mapping[bytes, bytes],
        receive: Receive,
        most: int | None = None,
        fix: str | None = None,
        *,
        arrived: bool = False,
    ) -> bytes | bytearray:
        """Read and unpack the whole body of at most ``most`` bytes (default: the limit), both packed and unpacked.

        ``receive`` returns its parts, by ASGI. ``fix`` tells what to do about a body that is too large. A body that
        has ``arrived`` takes no time.
        """
        limits, self.fix = self.bodies.limits, fix
        most = limits.body_bytes if most is None else min(most, limits.body_bytes)
        length = headers.get(b"content-length", b"")
        if length.isdigit() and int(length) > most:
            raise self._too_large(most)
        encoding = headers.get(b"content-encoding", b"identity").strip().lower()
        if encoding not in (b"identity", b"gzip", b"deflate"):
            got = encoding.decode("latin-1")[:40]
            raise Refusal("unknown Content-Encoding", got=got, expected="gzip or deflate", status=415)
        body = await self._receive(receive, most, None if arrived else limits.seconds)
        if encoding == b"identity":
            return body
        bits = 31 if encoding == b"gzip" else 15
        if len(body) <= SMALL_PACKED:
            return self._unpack(body, bits, most)
        return await asyncio.get_running_loop().run_in_executor(self.bodies.thread, self._unpack, body, bits, most)

    async def _receive(self, receive: Receive, most: int, seconds: float | None) -> bytes | bytearray:
        if seconds is None:
            return await self._parts(receive, most)
        try:
            async with asyncio.timeout(seconds):
                return await self._parts(receive, most)
        except TimeoutError:
            raise Refusal("the body did not arrive in time", expected=f"{seconds:g} s", status=408) from None

    async def _parts(self, receive: Receive, most: int) -> bytes | bytearray:
        body = b""
        while True:
            message = await receive()
            if message["type"] == "http.disconnect":
                raise Refusal("the client closed the connection before its request was complete")
            part, more = message.get("body", b""), message.get("more_body", False)
            if len(body) + len(part) > most:
                raise self._too_large(most)
            self.hold(len(part))
            if not body and not more:
                return part  # without a copy
            body = body or bytearray()
            body += part
            if not more:
                return body

    def hold(self, size: int) -> None:
        """Count bytes of this request or its response before they are kept."""
        self.size += size
        most = self.bodies.limits.held_bytes
        if self.size > FREE + most:
            raise Refusal("request and response are too large", expected=f"at most {most} bytes in all", status=413)
        if (extra := self.size - FREE - self.reserved) > 0:
            self.bodies.reserve(extra)
            self.reserved += extra

    def _unpack(self, body: bytes | bytearray, bits: int, most: int) -> bytearray:
        unpacker, found = zlib.decompressobj(bits), bytearray()
        for start in range(0, len(body), FREE):
            rest = bytes(body[start : start + FREE])
            while rest and not unpacker.eof:
                try:
                    part = unpacker.decompress(rest, STEP)
                except zlib.error as error:
                    raise Refusal("the body cannot be unpacked", got=error) from None
                if len(found) + len(part) > most:
                    raise self._too_large(most)
                self.hold(len(part))
                found += part
                rest = unpacker.unconsumed_tail
            if unpacker.eof and (unpacker.unused_data or start + FREE < len(body)):
                raise Refusal("the compressed body is followed by more bytes")
        if not unpacker.eof:
            raise Refusal("the compressed body is truncated")
        return found

    def _too_large(self, most: int) -> Refusal:
        return Refusal("the body is too large", expected=f"at most {most} bytes", fix=self.fix, status=413)
