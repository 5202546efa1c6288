"""Connections: bounded in number, in the time that they wait for their clients, and in the bytes left unread.

A server has one :class:`Connections`. Its protocol says what each connection waits for; a connection that waits for
longer than it may is closed. When there are too many, the address with the most connections loses the one that has
waited longest. So one client cannot take the places of others; behind a proxy, a single address, all are equal.
"""

from __future__ import annotations

import asyncio
import ipaddress
import logging
import os
import sys
import time
from collections import Counter
from dataclasses import dataclass
from typing import Protocol

from hyperfront.apps.shared.rarely import Rarely

SPARE_FILES = 64
"""Open files that are no connections: sockets that listen, logs, data."""
RESERVE = SPARE_FILES // 2
"""Connections beyond the limit while all others are at work, so that health checks are answered."""
PROGRESS = 2**20
"""Bytes of a response that a slow client must read in the time of ``unread_seconds``, so that it gets more time."""
_LOGGER = logging.getLogger("hyperfront.apps.shared")


@dataclass(frozen=True)
class ConnectionLimits:
    """Limits on the connections of one process."""

    count: int = 4096
    """The most connections; fewer if the process may not open as many files."""
    head_seconds: float = 10.0
    """The longest time for the headers of a request, and for the rest of a body that was refused."""
    idle_seconds: float = 75.0
    """The longest time between two requests."""
    unread_seconds: float = 30.0
    """The longest time in which a client reads nothing of a response."""
    unread_bytes: int = 2**28
    """The most bytes of all responses that clients have not read yet."""


class Connection(Protocol):
    """The operations of a connection."""

    def unsent(self) -> int:
        """The number of bytes that the client has not read yet."""
        ...

    def abort(self) -> None:
        """Close the connection without sending anything more."""
        ...


class Connections:
    """The connections of one server."""

    def __init__(self, limits: ConnectionLimits):
        self.limits, self.count, self.unread_bytes = limits, 0, 0
        self.waiting: dict[Connection, float] = {}
        """Connections that wait for their clients, the longest first, each with the time of its end."""
        self.origins: dict[Connection, str] = {}
        self.by_origin: Counter[str] = Counter()
        self.unread: dict[Connection, int] = {}
        """Connections with responses that are not read, the longest first, each with its bytes when last seen."""
        self._most: int | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._closed = Rarely(_LOGGER, "connections closed")
        self._full = Rarely(_LOGGER, "no file handles left")

    def add(self, connection: Connection, address: str = "") -> None:
        """Count a new connection from an address, and close another one if there are too many."""
        self.count += 1
        self.origins[connection] = origin = origin_of(address)
        self.by_origin[origin] += 1
        if self._most is None:
            self._most = min(self.limits.count, most_files() - SPARE_FILES)
        self.wait(connection, self.limits.head_seconds)
        if self.count > self._most:
            self._make_room(self._most)
        if self._timer is None:
            self._sweep_later()

    def remove(self, connection: Connection) -> None:
        """Forget a connection that was closed."""
        if connection not in self.origins:
            return  # it was forgotten before
        self.count -= 1
        origin = self.origins.pop(connection)
        self.by_origin[origin] -= 1
        if not self.by_origin[origin]:
            del self.by_origin[origin]
        self.work(connection)
        self.read(connection)

    def _make_room(self, limit: int) -> None:
        """Close the connection that has waited longest, of the origin with the most connections if one of it waits."""
        if len(self.waiting) == 1 and self.count <= limit + RESERVE:
            return  # only the new one waits
        most = max(self.by_origin.values())
        crowd = (connection for connection in self.waiting if self.by_origin[self.origins[connection]] == most)
        self._close(next(crowd, next(iter(self.waiting))))
        self._closed(reason="too many connections", connections=self.count)

    def wait(self, connection: Connection, seconds: float) -> None:
        """Let a connection wait for its client, for at most so many seconds from now."""
        self.waiting.pop(connection, None)
        self.waiting[connection] = time.monotonic() + seconds

    def work(self, connection: Connection) -> None:
        """Let a connection wait for the server, without a limit."""
        self.waiting.pop(connection, None)

    def leave(self, connection: Connection) -> None:
        """Count a response that the client does not read, and close the oldest of them if there are too many bytes."""
        self.read(connection)
        self.unread[connection] = connection.unsent()
        self.unread_bytes += self.unread[connection]
        while self.unread_bytes > self.limits.unread_bytes:
            self._close(next(iter(self.unread)))
            self._closed(reason="clients do not read their responses", connections=self.count)

    def read(self, connection: Connection) -> None:
        """A client has read its response, or is gone."""
        self.unread_bytes -= self.unread.pop(connection, 0)

    def sweep(self, now: float) -> None:
        """Close the connections that have waited for too long at this time."""
        for connection in [connection for connection, end in self.waiting.items() if end < now]:
            before = self.unread.get(connection, 0)
            if before - connection.unsent() >= PROGRESS:
                self.leave(connection)
                self.wait(connection, self.limits.unread_seconds)
            else:
                self._close(connection)

    def _close(self, connection: Connection) -> None:
        self.work(connection)
        self.read(connection)
        connection.abort()

    def _sweep_later(self) -> None:
        limits = self.limits
        interval = min(1.0, limits.head_seconds / 2, limits.idle_seconds / 2, limits.unread_seconds / 2)
        self._timer = asyncio.get_running_loop().call_later(interval, self._on_time)

    def _on_time(self) -> None:
        self.sweep(time.monotonic())
        try:
            os.close(os.open(os.devnull, os.O_RDONLY))
        except OSError as error:  # the loop drops connections without a word then
            self._full(reason=str(error), connections=self.count)
        self._timer = None
        if self.count:
            self._sweep_later()


def origin_of(address: str) -> str:
    """The address, or the network of an IPv6 address, of which a client has as many as it likes.

    >>> origin_of("192.0.2.1"), origin_of("2001:db8::5"), origin_of("::ffff:192.0.2.1")
    ('192.0.2.1', '2001:db8::/64', '192.0.2.1')
    """
    if ":" not in address:
        return address
    found = ipaddress.IPv6Address(address.partition("%")[0])
    return str(found.ipv4_mapped or ipaddress.ip_network((found, 64), strict=False))


def most_files(*, more: bool = False) -> int:
    """The most files that this process may open; ``more`` raises the number as far as the system allows."""
    if sys.platform == "win32":
        return 2**16
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = 2**16 if hard == resource.RLIM_INFINITY else min(hard, 2**16)
    if more and soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
        soft = wanted
    return wanted if soft == resource.RLIM_INFINITY else soft
