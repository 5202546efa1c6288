"""The hosts that requests to a server on this machine may name.

A foreign web page can reach such a server by pointing its own name to this machine (DNS rebinding). Its requests still
carry that name in their Host header.
"""

from __future__ import annotations

import ipaddress
import re
from functools import lru_cache

LOCAL = ("localhost", "127.0.0.1", "::1")
_HEADER = re.compile(r"(\[[0-9a-f:.]+\]|[^:\[\]]+)(:[0-9]*)?", re.IGNORECASE)


def hosts_for(host: str) -> tuple[str, ...]:
    """The names in requests to a server that listens at ``host``; empty (any name) if others can reach it.

    >>> hosts_for("127.0.0.2"), hosts_for("0.0.0.0")
    (('localhost', '127.0.0.1', '::1', '127.0.0.2'), ())
    """
    try:
        local = ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        local = host.lower() in LOCAL
    return tuple(dict.fromkeys((*LOCAL, host.strip("[]").lower()))) if local else ()


@lru_cache(256)
def host_of(header: bytes) -> str:
    """The host in a Host header, without the port.

    >>> host_of(b"localhost:8000"), host_of(b"[::1]:8000"), host_of(b"[::1].example")
    ('localhost', '::1', '')
    """
    found = _HEADER.fullmatch(header.decode("latin-1"))
    return found[1].strip("[]").lower() if found else ""
