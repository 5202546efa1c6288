"""Requests that ask for too much: refused with a reason, at a bounded cost, while others are answered."""

from __future__ import annotations

import contextlib
import gc
import gzip
import json
import os
import select
import socket
import threading
import tracemalloc
import urllib.parse
import zlib
from collections.abc import Callable
from dataclasses import asdict

import pytest
import torch

import hyperfront as hf
from hyperfront.apps.serve import documents, logs, process, requests
from hyperfront.apps.serve.options import Limits, ServiceOptions
from hyperfront.apps.serve.service import Service
from hyperfront.apps.serve.tensors import TensorMetadata
from hyperfront.apps.shared.bodies import FREE, Bodies, BodyLimits, Reader
from hyperfront.apps.shared.protocol import HEADER_BYTES, HEADER_COUNT
from hyperfront.apps.shared.refusal import Refusal
from tests.helpers import explored
from tests.helpers.serving import Client, serving
from tests.helpers.waiting import LIMIT, until

PATH = "/v2/models/echo/infer"
POST = f"POST {PATH} HTTP/1.1\r\nHost: a\r\n".encode()
LIMITS = Limits(body_bytes=400_000, held_bytes=1_000_000, elements=100_000, json_elements=20_000, rows=100, seconds=20)


def echo() -> Service:
    """The identity on rows of 3 numbers."""
    spec = TensorMetadata("x", "FP32", (3,))
    return Service("echo", ("a", "b"), (spec,), (spec,), lambda some: [query.inputs for query in some], lambda _: 0.0)


@pytest.fixture(scope="module")
def server():
    with serving(echo(), ServiceOptions(LIMITS)) as client:
        yield client
        assert ask(client, 1)[0] == 200


def tensor(rows: int, data: list) -> dict:
    return {"name": "x", "datatype": "FP32", "shape": [rows, 3], "data": data}


def decode(body: bytes, refused: str | None = None) -> requests.Asked | None:
    """Decode a request, or check that it is refused with that reason."""
    if refused is None:
        return requests.decode(echo(), LIMITS, bytearray(body), None)
    with pytest.raises(Refusal, match=refused):
        requests.decode(echo(), LIMITS, bytearray(body), None)
    return None


def peak(function: Callable[[], object]) -> int:
    """The most bytes that a call holds."""
    tracemalloc.start()
    try:
        function()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def ask(server: Client, rows: int, **more) -> tuple[int, dict]:
    return server.post(PATH, {"parameters": {"ray": [0.5, 0.5]}, "inputs": [tensor(rows, [0] * (3 * rows))], **more})


# ---- one body --------------------------------------------------------------------------------------------------------


def test_a_body_that_is_too_large_is_not_read(server):
    assert server.call("POST", PATH, b" " * 400_001)[0] == 413
    chunked = (b"10000\r\n" + b" " * 0x10000 + b"\r\n") * 8 + b"0\r\n\r\n"
    assert server.raw(POST + b"Transfer-Encoding: chunked\r\n\r\n" + chunked).startswith(b"HTTP/1.1 413")


@pytest.mark.parametrize("pack", [gzip.compress, zlib.compress])
def test_a_bomb_does_not_go_off(server, pack):
    bomb = pack(bytes(50_000_000))
    assert len(bomb) < 100_000
    encoding = {"Content-Encoding": "gzip" if pack is gzip.compress else "deflate"}
    assert server.call("POST", PATH, bomb, encoding)[0] == 413
    assert server.call("POST", PATH, bomb[:1000], encoding)[0] in (400, 413)
    assert server.call("POST", PATH, pack(b"{}") + b"x", encoding)[0] == 400


@pytest.mark.parametrize("value", [b"[]", b"{}", b"1.5", b'""'])
def test_json_with_too_many_values_is_never_parsed(server, monkeypatch, value):
    """A value of three bytes takes a hundred in memory, and all requests wait while JSON is parsed."""
    monkeypatch.setattr(documents.orjson, "loads", lambda text: pytest.fail("it was parsed"))
    body = gzip.compress(b'{"a":[' + b",".join([value] * 25_000) + b"]}")
    status, _, answer = server.call("POST", PATH, body, {"Content-Encoding": "gzip"})
    assert status == 413 and "too many values" in json.loads(answer)["error"]


def test_json_is_bounded_in_bytes_and_binary_tensors_beside_it_are_not():
    """Few values can be hard to parse too, if they are long; a bomb of JSON stops at this limit."""
    with serving(echo(), ServiceOptions(Limits(json_bytes=10_000))) as client:
        for body in (b'{"id":"' + b"a" * 10_000 + b'"}', b'{"id":' + b" " * 10_000 + b"1}"):
            assert client.call("POST", PATH, body)[0] == 413
            assert client.call("POST", PATH, gzip.compress(body), {"Content-Encoding": "gzip"})[0] == 413
            assert client.call("POST", PATH, body, {requests.HEADER_LENGTH: str(len(body))})[0] == 413
        x = tensor(1000, []) | {"parameters": {"binary_data_size": 12_000}}
        head = json.dumps({"parameters": {"ray": [0.5, 0.5]}, "inputs": [{k: x[k] for k in x if k != "data"}]}).encode()
        length = {requests.HEADER_LENGTH: str(len(head))}
        assert client.call("POST", PATH, head + bytes(12_000), length)[0] == 200


def test_one_thread_unpacks(server, monkeypatch):
    threads, unpack = [], Reader._unpack

    def recorded(self, body, *limits):
        threads.append(threading.current_thread())
        return unpack(self, body, *limits)

    monkeypatch.setattr(Reader, "_unpack", recorded)
    bodies = [gzip.compress(os.urandom(size)) for size in (10, 1000, 2000, 3000)]
    for body in bodies:
        assert server.call("POST", PATH, body, {"Content-Encoding": "gzip"})[0] == 400
    assert len({*threads[1:]}) == 1 and threads[0] != threads[1]


@pytest.mark.parametrize("nested", [False, True])
def test_only_numbers_of_a_tensor_reach_numpy(nested):
    """NumPy pads each text of a list to the length of the longest: 25 million letters here."""
    data = ["a" * 5000] + [""] * 5000
    body = {"parameters": {"ray": [0.5, 0.5]}, "inputs": [tensor(5001 // 3, [data] if nested else data)]}
    assert peak(lambda: decode(json.dumps(body).encode(), "wrong type")) < 4_000_000


def test_nested_lists_are_flattened_up_to_the_dimensions_of_a_tensor():
    x = torch.arange(6.0)
    for data in (x.tolist(), x.reshape(2, 3).tolist(), x.reshape(1, 1, 2, 3, 1).tolist()):
        body = {"parameters": {"ray": [0.5, 0.5]}, "inputs": [tensor(2, data)]}
        assert torch.equal(decode(json.dumps(body).encode()).query.inputs[0], x.reshape(2, 3))
    deep: list = [0.0] * 6
    for _ in range(requests.DIMENSIONS):
        deep = [deep]
    decode(json.dumps(body | {"inputs": [tensor(2, deep)]}).encode(), "nested too deeply")


def test_a_request_without_memory_for_it_is_refused(server, monkeypatch):
    def decode(*arguments):
        raise MemoryError

    monkeypatch.setattr(requests, "decode", decode)
    assert ask(server, 1)[0] == 503


def test_large_json_is_parsed_beside_the_event_loop_and_small_json_on_it(server, monkeypatch):
    threads, decode = [], requests.decode

    def recorded(*arguments):
        threads.append(threading.current_thread().name)
        return decode(*arguments)

    monkeypatch.setattr(requests, "decode", recorded)
    assert ask(server, 1)[0] == ask(server, 1, id=" " * 70_000)[0] == 200
    assert [name.startswith("large") for name in threads] == [False, True]
    assert gc.isenabled()


def test_too_many_rows_and_numbers(server):
    assert ask(server, 100)[0] == 200
    assert ask(server, 101)[0] == ask(server, 2000)[0] == 413


def test_outputs_too_large_for_json_are_sent_as_binary():
    spec, wide = TensorMetadata("x", "FP32", (3,)), TensorMetadata("y", "FP32", (3000,))
    outputs = [(torch.zeros(10, 3000),)]
    service = Service("echo", ("a", "b"), (spec,), (wide,), lambda some: outputs, lambda _: 0.0)
    with serving(service, ServiceOptions(LIMITS)) as client:
        assert ask(client, 10)[0] == 413
        x = {"name": "x", "datatype": "FP32", "shape": [10, 3], "data": [0] * 30}
        wanted = {"parameters": {"ray": [0.5, 0.5], "binary_data_output": True}, "inputs": [x]}
        status, _, body = client.call("POST", PATH, json.dumps(wanted).encode())
        assert status == 200 and len(body) > outputs[0][0].nbytes


def test_a_body_that_never_ends_is_given_up():
    with serving(echo(), ServiceOptions(Limits(seconds=0.2))) as client:
        assert client.raw(
            POST + b"Content-Length: 100\r\n\r\n{",
        ).startswith(b"HTTP/1.1 408")


# ---- all bodies ------------------------------------------------------------------------------------------------------


def test_all_bodies_together_are_bounded_and_small_requests_go_on(server):
    """Bodies of which the last byte never comes: some are refused, the others are forgotten with their connections."""
    held = server.server.bodies
    with contextlib.ExitStack() as stack:
        connections = []
        for _ in range(8):
            connection = stack.enter_context(socket.create_connection(("127.0.0.1", server.port), timeout=LIMIT))
            connection.sendall(POST + b"Content-Length: 380000\r\n\r\n" + b" " * 379_999)
            connections.append(connection)
        until(lambda: len(answered(connections)) >= 5)  # four whole bodies are more than the limit
        answers = [connection.recv(65536) for connection in answered(connections)]
        assert all(answer.startswith(b"HTTP/1.1 503") and b"retry-after: 1" in answer for answer in answers)
        assert 0 < held.held <= LIMITS.held_bytes
        assert ask(server, 100)[0] == 200
        assert server.get("/v2/health/live")[0] == 200
    until(lambda: held.held == 0)


def answered(connections: list[socket.socket]) -> list[socket.socket]:
    return select.select(connections, [], [], 0)[0]


def test_unpacked_bytes_count_before_they_are_kept():
    bodies, packed = Bodies(BodyLimits(held_bytes=10 * FREE)), bytearray(gzip.compress(bytes(8 * FREE)))
    with bodies.reader() as other:
        other.hold(5 * FREE)
        with pytest.raises(Refusal) as refused, bodies.reader() as reader:
            reader._unpack(packed, 31, 30 * FREE)
        assert (refused.value.status, bodies.held) == (503, 4 * FREE)
    with bodies.reader() as reader:
        found = reader._unpack(bytearray(gzip.compress(bytes(5 * FREE))), 31, 30 * FREE)
        assert len(found) == 5 * FREE and bodies.held == 4 * FREE
    assert bodies.held == 0


@pytest.mark.parametrize("shape", [(3000,), (-1,)], ids=["known", "free"])
def test_responses_count_before_they_are_made(shape):
    """Two responses of 30 rows exceed the limit, and one of 100 rows does alone."""
    started, go_on = threading.Event(), threading.Event()

    def predict(some):
        started.set()
        assert go_on.wait(LIMIT)
        return [(torch.zeros(query.rows, 3000),) for query in some]

    def wanted(client: Client, rows: int) -> tuple[int, dict, bytes]:
        body = {"parameters": {"ray": [0.5, 0.5], "binary_data_output": True}, "inputs": [tensor(rows, [0] * 3 * rows)]}
        return client.call("POST", PATH, json.dumps(body).encode())

    spec, wide, found = TensorMetadata("x", "FP32", (3,)), TensorMetadata("y", "FP32", shape), []
    limits = Limits(held_bytes=1_000_000, elements=300_000)
    service = Service("echo", ("a", "b"), (spec,), (wide,), predict, lambda _: 1.0)
    with serving(service, ServiceOptions(limits)) as client:
        thread = threading.Thread(target=lambda: found.append(wanted(client, 30)))
        thread.start()
        assert started.wait(LIMIT)
        if shape == (3000,):
            status, headers, _ = wanted(client, 30)
            assert (status, headers["retry-after"]) == (503, "1")
        go_on.set()
        thread.join(LIMIT)
        assert found[0][0] == 200 and len(found[0][2]) > 30 * 12_000
        assert wanted(client, 100)[0] == 413
        assert wanted(client, 30)[0] == 200
        assert client.server.bodies.held == 0


def test_the_body_of_a_choice_is_small(server, fonseca):
    large = json.dumps({"minimize": "x" * 100_000}).encode()
    assert server.call("POST", "/v1/select", large)[0] in (404, 413)
    assert fonseca.call("POST", f"{fonseca.path}api/select", large)[0] == 422


# ---- headers ---------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def fonseca(tmp_path_factory):
    exploration = hf.explore(explored.toy(tmp_path_factory.mktemp("limits") / "run", "fonseca", variables=2))
    url = urllib.parse.urlparse(exploration.url)
    client = Client(url.port)
    client.path = url.path
    yield client
    exploration.close()


START = b"GET /v2/health/live HTTP/1.1\r\nHost: localhost\r\n"
TOO_MUCH = {
    "endless value": START + b"X: " + b"a" * 10 * HEADER_BYTES,
    "endless name": START + b"a" * 10 * HEADER_BYTES,
    "endless target": b"GET /" + b"a" * 10 * HEADER_BYTES,
    "large headers": START + (b"X: " + b"a" * 2000 + b"\r\n") * 40,
    "many headers": START + b"X: a\r\n" * 2 * HEADER_COUNT,
}


@pytest.mark.parametrize("case", TOO_MUCH)
@pytest.mark.parametrize("which", ["server", "fonseca"])
def test_headers_are_bounded(request, which, case):
    """The parser keeps them before anything else looks at the request; the end of the headers is never sent."""
    client, message = request.getfixturevalue(which), TOO_MUCH[case]
    with socket.create_connection(("127.0.0.1", client.port), timeout=LIMIT) as connection:
        for start in range(0, len(message), 4096):
            try:
                connection.sendall(message[start : start + 4096])
            except OSError:
                break
        with contextlib.suppress(ConnectionResetError):  # the answer is lost if more was sent: also an end
            assert connection.recv(100).startswith(b"HTTP/1.1 431")


def test_headers_within_the_limits_are_read(server):
    message = START + b"X: a\r\n" * (HEADER_COUNT - 1) + b"\r\n"
    assert server.raw(message).startswith(b"HTTP/1.1 200")
    assert server.raw(START + b"X: " + b"a" * (HEADER_BYTES - 1000) + b"\r\n\r\n").startswith(b"HTTP/1.1 200")


def test_the_headers_of_each_request_on_a_connection_count_alone(server):
    message = START + b"X: a\r\n" * 90 + b"\r\n"
    with socket.create_connection(("127.0.0.1", server.port), timeout=LIMIT) as connection:
        for _ in range(5):
            connection.sendall(message)
            assert connection.recv(65536).startswith(b"HTTP/1.1 200")


def test_endless_trailers_close_the_connection(server):
    with socket.create_connection(("127.0.0.1", server.port), timeout=LIMIT) as connection:
        connection.sendall(POST + b"Transfer-Encoding: chunked\r\n\r\n0\r\nX: ")
        with pytest.raises(OSError):
            for _ in range(10_000):
                connection.sendall(b"a" * 4096)


# ---- garbage collection ----------------------------------------------------------------------------------------------


def test_a_worker_takes_what_start_up_made_out_of_garbage_collection(tmp_path, monkeypatch):
    """A full collection would look through all of it, and stop every request meanwhile."""
    run = explored.toy(tmp_path / "run", "fonseca", variables=2)
    monkeypatch.setattr(logs, "set_up", lambda level: None)  # it would keep the captured stream
    monkeypatch.setitem(os.environ, process.SETTINGS, json.dumps(asdict(process.WorkerOptions((str(run),)))))
    before = gc.get_freeze_count()
    try:
        process.worker()
        assert gc.get_freeze_count() - before > 10_000
    finally:
        gc.unfreeze()
