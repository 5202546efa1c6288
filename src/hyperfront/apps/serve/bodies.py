"""Bodies of requests and responses: bounded in size and time, and packed if the client packs."""

from __future__ import annotations

import asyncio
import gzip
import zlib

from starlette.requests import ClientDisconnect, Request

from hyperfront.apps.serve.refusal import Refusal
from hyperfront.apps.serve.settings import Limits

WORTH_PACKING = 1024


async def read(request: Request, limits: Limits) -> bytearray:
    """The whole body, unpacked; no more of it is ever held than the limit, nor waited for longer."""
    length = request.headers.get("content-length", "")
    if length.isdecimal() and int(length) > limits.body_bytes:
        raise _too_large(limits.body_bytes)
    body = bytearray()
    try:
        async with asyncio.timeout(limits.seconds):
            async for part in request.stream():
                body += part
                if len(body) > limits.body_bytes:
                    raise _too_large(limits.body_bytes)
    except TimeoutError:
        raise Refusal("the body did not arrive in time", expected=f"{limits.seconds:g} s", status=408) from None
    except ClientDisconnect:
        raise Refusal("the client went away before its request was complete") from None
    encoding = request.headers.get("content-encoding", "identity").strip().lower()
    if encoding == "identity":
        return body
    if encoding not in ("gzip", "deflate"):
        raise Refusal("unknown Content-Encoding", got=encoding[:40], expected="gzip or deflate", status=415)
    return _unpack(body, 31 if encoding == "gzip" else 15, limits.body_bytes)


def _unpack(body: bytearray, bits: int, limit: int) -> bytearray:
    unpacker = zlib.decompressobj(bits)
    try:
        found = bytearray(unpacker.decompress(body, limit + 1))
    except zlib.error as error:
        raise Refusal("the body cannot be unpacked", got=error) from None
    if len(found) > limit:
        raise _too_large(limit)
    if not unpacker.eof or unpacker.unused_data:
        raise Refusal("the packed body is cut off, or has something behind it")
    return found


def pack(body: bytes, accepted: str) -> tuple[bytes, str | None]:
    """The body as the client likes it, and the name of that encoding."""
    if len(body) < WORTH_PACKING:
        return body, None
    offered = {name.partition(";")[0].strip().lower() for name in accepted.split(",")}
    if "gzip" in offered:
        return gzip.compress(body, compresslevel=1, mtime=0), "gzip"
    if "deflate" in offered:
        return zlib.compress(body, 1), "deflate"
    return body, None


def _too_large(limit: int) -> Refusal:
    return Refusal("the body is too large", expected=f"at most {limit} bytes", status=413)
