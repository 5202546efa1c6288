"""Connections of clients that are slow, silent or too many: closed, while the others are answered."""

from __future__ import annotations

import contextlib
import json
import os
import select
import socket
import threading
import time
from collections.abc import Callable, Iterator

import pytest
import torch

from hyperfront.apps.serve.options import Limits, ServiceOptions
from hyperfront.apps.serve.service import Service
from hyperfront.apps.serve.tensors import TensorMetadata
from hyperfront.apps.shared import connections
from hyperfront.apps.shared.connections import PROGRESS, RESERVE, SPARE_FILES, ConnectionLimits, Connections
from tests.helpers.serving import Client, serving
from tests.helpers.waiting import LIMIT, until

PATH = "/v2/models/echo/infer"
WIDE = 500_000
HOUR = 3600.0
HEALTH = b"GET /v2/health/live HTTP/1.1\r\nHost: localhost\r\n"
POST = f"POST {PATH} HTTP/1.1\r\nHost: localhost\r\n".encode()


def service(predict: Callable | None = None) -> Service:
    """A model of one number that answers with many."""
    x, y = TensorMetadata("x", "FP32", (1,)), TensorMetadata("y", "FP32", (WIDE,))
    return Service("echo", ("a", "b"), (x,), (y,), predict or zeros, lambda _: 1.0)


def zeros(queries: list) -> list:
    return [(torch.zeros(query.rows, WIDE),) for query in queries]


def asking(rows: int = 1) -> bytes:
    x = {"name": "x", "datatype": "FP32", "shape": [rows, 1], "data": [0] * rows}
    body = json.dumps({"parameters": {"ray": [0.5, 0.5], "binary_data_output": True}, "inputs": [x]}).encode()
    return POST + b"Content-Length: %d\r\n\r\n" % len(body) + body


@contextlib.contextmanager
def connected(client: Client, message: bytes = b"", **options: int) -> Iterator[socket.socket]:
    with socket.socket() as connection:
        for name, value in options.items():
            connection.setsockopt(socket.SOL_SOCKET, getattr(socket, name), value)
        connection.settimeout(LIMIT)
        connection.connect(("127.0.0.1", client.port))
        connection.sendall(message)
        yield connection


def closed(connection: socket.socket) -> bytearray:
    """What the server still sends before it closes the connection."""
    found = bytearray()
    with contextlib.suppress(ConnectionResetError):
        while part := connection.recv(65536):
            found += part
    return found


# ---- with a server ---------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def patient():
    """A server whose limits are hours apart: no test takes as long, and each says when how many hours have passed."""
    limits = ConnectionLimits(idle_seconds=1 * HOUR, head_seconds=3 * HOUR, unread_seconds=5 * HOUR)
    with serving(service(), ServiceOptions(Limits(body_bytes=1000)), limits) as client:
        yield client


def hours_pass(client: Client, hours: float) -> None:
    """Let the server look at its connections as if so many hours had passed."""
    done, loop = threading.Event(), client.app.loop
    loop.call_soon_threadsafe(lambda: (client.connections.sweep(time.monotonic() + hours * HOUR), done.set()))
    assert done.wait(LIMIT)


def waits(client: Client, hours: int) -> bool:
    """Whether the server gives its only connection about so many hours."""
    ends = [*client.connections.waiting.values()]
    return len(ends) == 1 and abs(ends[0] - time.monotonic() - hours * HOUR) < HOUR / 2


WAITS = {
    "silent": (b"", 0),
    "blank lines": (b"\r\n" * 5, 0),
    "headers": (HEALTH + b"X: a", 0),
    "headers of the next request": (HEALTH + b"\r\n" + HEALTH, 1),
    "body of a refused request": (POST + b"Content-Length: 100000\r\n\r\n{", 1),
}


@pytest.mark.parametrize("case", WAITS)
def test_a_client_that_does_not_finish_its_request_is_left(patient, case):
    message, answers = WAITS[case]
    with connected(patient, message) as connection:
        found = connection.recv(65536) if answers else b""
        until(lambda: waits(patient, 3))
        hours_pass(patient, 2)
        assert patient.connections.count == 1
        hours_pass(patient, 4)
        assert (found + closed(connection)).count(b"HTTP/1.1 ") == answers


def test_the_server_looks_at_its_connections_by_itself():
    with serving(service(), connections=ConnectionLimits(head_seconds=0.2)) as client, connected(client) as connection:
        assert closed(connection) == b""


def test_an_idle_client_is_left_and_a_new_request_is_not_idle(patient):
    with connected(patient, HEALTH + b"\r\n") as connection:
        assert connection.recv(65536).startswith(b"HTTP/1.1 200")
        until(lambda: waits(patient, 1))
        hours_pass(patient, 2)
        assert closed(connection) == b""
    with connected(patient, HEALTH + b"\r\n") as connection:
        assert connection.recv(65536).startswith(b"HTTP/1.1 200")
        connection.sendall(HEALTH)
        until(lambda: waits(patient, 3))
        hours_pass(patient, 2)
        connection.sendall(b"\r\n")
        assert connection.recv(65536).startswith(b"HTTP/1.1 200")


def test_a_client_that_does_not_read_is_left(patient):
    with connected(patient, asking(rows=20), SO_RCVBUF=4096):
        until(lambda: patient.connections.unread)
        hours_pass(patient, 4)
        assert patient.connections.count == 1
        until(lambda: hours_pass(patient, 6) or not patient.connections.count)  # the kernel may read some of it
    assert patient.connections.unread_bytes == 0


def test_a_client_that_waits_for_its_answer_or_reads_it_is_not_left():
    began, go_on = threading.Event(), threading.Event()

    def predict(queries: list) -> list:
        began.set()
        assert go_on.wait(LIMIT)
        return zeros(queries)

    limits = ConnectionLimits(idle_seconds=1 * HOUR, head_seconds=1 * HOUR, unread_seconds=5 * HOUR)
    with serving(service(predict), connections=limits) as client, connected(client, asking(rows=4)) as connection:
        assert began.wait(LIMIT)
        hours_pass(client, 9)
        go_on.set()
        found = len(connection.recv(65536))
        hours_pass(client, 2)
        while found < 4 * 4 * WIDE:
            found += len(connection.recv(65536))


def test_the_connection_that_waited_longest_makes_room():
    with serving(service(), connections=ConnectionLimits(count=4)) as client, contextlib.ExitStack() as stack:
        silent = [stack.enter_context(connected(client)) for _ in range(4)]
        until(lambda: client.connections.count == 4)
        assert client.get("/v2/health/live")[0] == 200
        assert closed(silent[0]) == b""
        silent[1].sendall(HEALTH + b"\r\n")
        assert silent[1].recv(65536).startswith(b"HTTP/1.1 200")


def test_requests_whose_bodies_are_slow_leave_room_for_others_and_count_once_they_are_complete():
    go_on = threading.Event()

    def predict(queries: list) -> list:
        assert go_on.wait(LIMIT)
        return zeros(queries)

    settings = ServiceOptions(Limits(concurrency=2))
    with serving(service(predict), settings) as client, contextlib.ExitStack() as stack:
        slow = [stack.enter_context(connected(client, asking()[:-1])) for _ in range(5)]
        until(lambda: client.connections.count == 5)
        assert client.get("/v2")[0] == 200
        for connection in slow:
            connection.sendall(b"}")
        until(lambda: len(select.select(slow, [], [], 0)[0]) == 3)
        go_on.set()
        answers = sorted(connection.recv(65536)[:12] for connection in slow)
        assert answers == [b"HTTP/1.1 200"] * 2 + [b"HTTP/1.1 429"] * 3


def test_slow_bodies_on_all_connections_leave_room_for_health_checks():
    with serving(service(), connections=ConnectionLimits(count=4)) as client, contextlib.ExitStack() as stack:
        slow = [stack.enter_context(connected(client, asking()[:-1])) for _ in range(4)]
        until(lambda: client.connections.count == 4)
        assert client.get("/v2/health/live")[0] == 200
        assert closed(slow[0]) == b""
        slow[1].sendall(b"}")
        assert slow[1].recv(65536).startswith(b"HTTP/1.1 200")


def test_a_body_is_not_kept_while_an_earlier_request_is_answered():
    go_on = threading.Event()

    def predict(queries: list) -> list:
        assert go_on.wait(LIMIT)
        return zeros(queries)

    with serving(service(predict)) as client:
        body = POST + b"Content-Length: 300000\r\n\r\n" + b" " * 300_000
        with connected(client, asking()) as connection:
            with contextlib.suppress(OSError):
                connection.sendall(body)
            assert closed(connection) == b""
        go_on.set()


# ---- without a server ------------------------------------------------------------------------------------------------


class Fake:
    """A connection with so many bytes that its client has not read."""

    def __init__(self, registry: Connections, size: int = 0, address: str = ""):
        self.registry, self.size, self.open = registry, size, True
        registry.add(self, address)
        if size:
            registry.leave(self)

    def unsent(self) -> int:
        return self.size

    def abort(self) -> None:
        self.open = False
        self.registry.remove(self)


def registry(monkeypatch, **limits) -> Connections:
    monkeypatch.setattr(Connections, "_sweep_later", lambda self: None)  # there is no loop
    return Connections(ConnectionLimits(**limits))


def test_a_slow_client_that_makes_progress_gets_more_time(monkeypatch):
    known = registry(monkeypatch)
    slow, stuck = Fake(known, 10 * PROGRESS), Fake(known, 10 * PROGRESS)
    for _ in range(9):
        slow.size -= PROGRESS
        stuck.size -= 1
        known.sweep(time.monotonic() + 1000)
        assert slow.open and not stuck.open
        assert known.unread_bytes == slow.size
    known.sweep(time.monotonic() + 1000)
    assert not slow.open and (known.count, known.unread_bytes) == (0, 0)


def test_bytes_that_are_not_read_are_bounded_in_sum(monkeypatch):
    known = registry(monkeypatch, unread_bytes=1000)
    opened = [Fake(known, 300) for _ in range(10)]
    assert [fake.open for fake in opened] == [False] * 7 + [True] * 3
    known.read(opened[-1])
    assert Fake(known, 300).open and all(fake.open for fake in opened[-3:])


def test_connections_at_work_are_never_closed_for_others(monkeypatch):
    known = registry(monkeypatch, count=3)
    first, second, third = (Fake(known) for _ in range(3))
    known.work(first)
    fourth = Fake(known)
    assert [fake.open for fake in (first, second, third, fourth)] == [True, False, True, True]
    known.sweep(time.monotonic() + 1000)
    assert [fake.open for fake in (first, third, fourth)] == [True, False, False]


def test_the_address_with_the_most_connections_makes_room(monkeypatch):
    known = registry(monkeypatch, count=4)
    friend = Fake(known, address="192.0.2.1")
    many = [Fake(known, address=f"2001:db8::{n}") for n in range(9)]  # one network
    assert friend.open and [fake.open for fake in many] == [False] * 6 + [True] * 3
    other = Fake(known, address="192.0.2.2")
    assert [fake.open for fake in (friend, other, *many[-3:])] == [True, True, False, True, True]
    for fake in many[-2:]:
        known.work(fake)
    assert Fake(known, address="192.0.2.3").open and not friend.open  # nobody of the crowd waits


def test_there_is_a_reserve_while_all_connections_are_at_work(monkeypatch):
    known = registry(monkeypatch, count=2)

    def busy() -> Fake:
        fake = Fake(known)
        if fake.open:
            known.work(fake)
        return fake

    assert [busy().open for _ in range(2 + RESERVE + 2)] == [True] * (2 + RESERVE) + [False] * 2
    assert known.count == 2 + RESERVE


def test_there_are_fewer_connections_than_files(monkeypatch):
    known = registry(monkeypatch)
    monkeypatch.setattr(connections, "most_files", lambda: SPARE_FILES + 2)
    lines = []
    known._closed = lambda **fields: lines.append(fields["reason"])
    opened = [Fake(known) for _ in range(5)]
    assert [fake.open for fake in opened] == [False] * 3 + [True] * 2
    assert lines == ["too many connections"] * 3


def test_the_log_says_that_there_are_no_files_left(monkeypatch):
    known, lines = registry(monkeypatch), []
    known._full = lambda **fields: lines.append(fields)
    known._on_time()
    assert not lines

    def refuse(*arguments):
        raise OSError(24, "Too many open files")

    with monkeypatch.context() as patch:
        patch.setattr(os, "open", refuse)
        known._on_time()
    assert "Too many open files" in lines[0]["reason"]
