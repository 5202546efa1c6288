"""Request bodies: bounded in size, in time, and in the memory of all bodies together."""

from __future__ import annotations

import asyncio
import threading
import zlib
from dataclasses import dataclass
from types import TracebackType

from starlette.requests import ClientDisconnect, Request

from hyperfront.apps.shared.refusal import Refusal
from hyperfront.errors import HyperfrontError

FREE = 64 * 2**10
"""Bytes that each body has without asking, so that requests of usual size are answered while others hold the rest."""
SMALL_PACKED = 2**12
"""Packed bytes that are unpacked on the event loop; more go to a thread, since they can grow a thousandfold."""
STEP = 2**20
"""Bytes that are unpacked at a time."""


@dataclass(frozen=True)
class BodyLimits:
    """How large and how late a body may be."""

    body_bytes: int = 64 * 2**20
    """The most bytes of one body, as it is sent and once it is unpacked."""
    held_bytes: int = 256 * 2**20
    """The most bytes of all bodies that one process holds at the same time."""
    seconds: float = 30.0
    """The longest time that a body may take to arrive."""

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            if not value > 0:
                raise HyperfrontError(f"the limit {name} is not positive", got=value)


class Bodies:
    """The bodies that one process holds. ``with bodies.reader() as reader`` gives a request its part of the memory."""

    def __init__(self, limits: BodyLimits):
        self.limits, self.held = limits, 0
        self._lock = threading.Lock()

    def reader(self) -> Reader:
        return Reader(self)

    def reserve(self, size: int) -> None:
        """Count ``size`` more bytes, or refuse them."""
        with self._lock:
            if self.held + size > self.limits.held_bytes:
                raise Refusal(
                    "the server holds too many large bodies at the moment",
                    expected=f"at most {self.limits.held_bytes} bytes in all",
                    status=503,
                    retry_after=1,
                )
            self.held += size

    def release(self, size: int) -> None:
        with self._lock:
            self.held -= size


class Reader:
    """Reads the body of one request; what it holds is released at the end of its ``with`` block."""

    def __init__(self, bodies: Bodies):
        self.bodies, self.size, self.reserved = bodies, 0, 0

    def __enter__(self) -> Reader:
        return self

    def __exit__(self, kind: type | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if self.reserved:
            self.bodies.release(self.reserved)

    async def read(self, request: Request, most: int | None = None) -> bytearray:
        """The whole body, unpacked, of at most ``most`` bytes (default: the limit)."""
        limits = self.bodies.limits
        most = limits.body_bytes if most is None else min(most, limits.body_bytes)
        length = request.headers.get("content-length", "")
        if length.isdecimal() and int(length) > most:
            raise _too_large(most)
        encoding = request.headers.get("content-encoding", "identity").strip().lower()
        if encoding not in ("identity", "gzip", "deflate"):
            raise Refusal("unknown Content-Encoding", got=encoding[:40], expected="gzip or deflate", status=415)
        body = await self._receive(request, most)
        if encoding == "identity":
            return body
        bits = 31 if encoding == "gzip" else 15
        if len(body) <= SMALL_PACKED:
            return self._unpack(body, bits, most)
        return await asyncio.to_thread(self._unpack, body, bits, most)

    async def _receive(self, request: Request, most: int) -> bytearray:
        body, seconds = bytearray(), self.bodies.limits.seconds
        try:
            async with asyncio.timeout(seconds):
                async for part in request.stream():
                    if len(body) + len(part) > most:
                        raise _too_large(most)
                    self._hold(len(part))
                    body += part
        except TimeoutError:
            raise Refusal("the body did not arrive in time", expected=f"{seconds:g} s", status=408) from None
        except ClientDisconnect:
            raise Refusal("the client went away before its request was complete") from None
        return body

    def _hold(self, size: int) -> None:
        """Count bytes that are about to be kept, before there is memory for them."""
        self.size += size
        if (extra := self.size - FREE - self.reserved) > 0:
            self.bodies.reserve(extra)
            self.reserved += extra

    def _unpack(self, body: bytearray, bits: int, most: int) -> bytearray:
        unpacker, found = zlib.decompressobj(bits), bytearray()
        for start in range(0, len(body), FREE):
            rest = bytes(body[start : start + FREE])
            while rest and not unpacker.eof:
                try:
                    part = unpacker.decompress(rest, STEP)
                except zlib.error as error:
                    raise Refusal("the body cannot be unpacked", got=error) from None
                if len(found) + len(part) > most:
                    raise _too_large(most)
                self._hold(len(part))
                found += part
                rest = unpacker.unconsumed_tail
            if unpacker.eof and (unpacker.unused_data or start + FREE < len(body)):
                raise Refusal("the packed body has something behind it")
        if not unpacker.eof:
            raise Refusal("the packed body is cut off")
        return found


def _too_large(limit: int) -> Refusal:
    return Refusal("the body is too large", expected=f"at most {limit} bytes", status=413)
