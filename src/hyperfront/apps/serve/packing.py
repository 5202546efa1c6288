"""Response bodies, packed where the client accepts that."""

from __future__ import annotations

import gzip
import zlib

WORTH_PACKING = 1024


def pack(body: bytes, accepted: str) -> tuple[bytes, str | None]:
    """The body in an encoding that the client accepts, and the name of that encoding."""
    if len(body) < WORTH_PACKING:
        return body, None
    offered = {name.partition(";")[0].strip().lower() for name in accepted.split(",")}
    if "gzip" in offered:
        return gzip.compress(body, compresslevel=1, mtime=0), "gzip"
    if "deflate" in offered:
        return zlib.compress(body, 1), "deflate"
    return body, None
