"""The client side of benchmarks/serving.py: requests, keep-alive connections, and the time of each answer."""

from __future__ import annotations

import asyncio
import gzip
import json
import random
import struct
import time
from collections.abc import Callable, Iterable, Iterator

IMAGE = struct.pack("<1296f", *(random.Random(0).random() for _ in range(1296)))
HEADER = {
    "inputs": [
        {"name": "x", "datatype": "FP32", "shape": [1, 1, 36, 36], "parameters": {"binary_data_size": 5184}},
        {"name": "ray", "datatype": "FP32", "shape": [1, 2], "parameters": {"binary_data_size": 8}},
    ],
    "parameters": {"binary_data_output": True},
}


def request(ray: float) -> bytes:
    text = json.dumps(HEADER).encode()
    body = text + IMAGE + struct.pack("<2f", ray, 1 - ray)
    head = (
        "POST /v2/models/lenet/infer HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/octet-stream\r\n"
        f"Inference-Header-Content-Length: {len(text)}\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    return head.encode() + body


def rays(kind: str) -> Iterator[bytes]:
    """Requests without end."""
    if kind == "a new ray each":
        generator = random.Random(1)
        while True:
            yield request(generator.random())
    prepared = [request(0.5)] if kind == "one ray" else [request((k + 0.5) / 100) for k in range(100)]
    while True:
        yield from prepared


class Connection(asyncio.Protocol):
    """One keep-alive connection with at most one request on the way."""

    async def open(self, port: int) -> Connection:
        self.buffer, self.answer = bytearray(), None
        self.transport, _ = await asyncio.get_running_loop().create_connection(lambda: self, "127.0.0.1", port)
        return self

    def data_received(self, data: bytes) -> None:
        self.buffer += data
        end = self.buffer.find(b"\r\n\r\n")
        if end < 0:
            return
        head = bytes(self.buffer[:end]).lower()
        length = int(head.partition(b"content-length: ")[2].partition(b"\r\n")[0])  # the first header of uvicorn's
        if len(self.buffer) >= end + 4 + length:
            answer = bytes(self.buffer)
            self.buffer.clear()
            if head.startswith(b"http/1.1 200"):
                self.answer.set_result(None)
            else:
                self.answer.set_exception(RuntimeError(answer))

    def send(self, message: bytes) -> asyncio.Future:
        self.answer = asyncio.get_running_loop().create_future()
        self.transport.write(message)
        return self.answer


async def burst(opened: list[Connection], messages: Iterator[bytes], count: int) -> float:
    """Seconds for that many requests, one after the other on each connection."""
    left = count

    async def client(connection: Connection) -> None:
        nonlocal left
        while left > 0:
            left -= 1
            await connection.send(next(messages))

    start = time.perf_counter()
    await asyncio.gather(*(client(connection) for connection in opened))
    return time.perf_counter() - start


async def latencies(port: int, messages: Iterator[bytes], count: int, rate: float) -> list[float]:
    """Seconds of each request, from when it was due; they come as a Poisson process, whatever the server does."""
    free = [await Connection().open(port) for _ in range(8)]
    everything, found, generator = list(free), [], random.Random(2)
    tasks, due = [], time.perf_counter() + 0.05

    async def one(due: float) -> None:
        connection = free.pop() if free else await Connection().open(port)
        await connection.send(next(messages))
        found.append(time.perf_counter() - due)
        free.append(connection)

    for _ in range(count):
        due += generator.expovariate(rate)
        wait = due - time.perf_counter()
        if wait > 0:
            await asyncio.sleep(wait)
        tasks.append(asyncio.create_task(one(due)))
    await asyncio.gather(*tasks)
    for connection in {*everything, *free}:
        connection.transport.close()
    return sorted(found)


async def closed_loop(
    port: int, messages: Iterator[bytes], connections: int, seconds: float, busy: Callable[[], float]
) -> tuple[list[float], list[float]]:
    """For requests one after the other on each connection, sorted: seconds of the clock, and of ``busy`` meanwhile."""
    opened = [await Connection().open(port) for _ in range(connections)]
    clock: list[float] = []
    processor: list[float] = []
    end = time.perf_counter() + seconds

    async def client(connection: Connection) -> None:
        while (start := time.perf_counter()) < end:
            before = busy()
            await connection.send(next(messages))
            clock.append(time.perf_counter() - start)
            processor.append(busy() - before)

    await asyncio.gather(*(client(connection) for connection in opened))
    for connection in opened:
        connection.transport.close()
    return sorted(clock), sorted(processor)


VALUES, JSON_BYTES, FAR = 2**18, 2**23, 2**25
"""The limits on values and on bytes of JSON, and a size that is far beyond it."""


def hostile_requests() -> Iterator[bytes]:
    """Bodies that are hard to read: just within the limits, and far beyond them, packed and plain."""
    for value in (b"[]", b"{}", b"1.5", b'""', b"2.225073858507201136057409e-308"):
        within = min(VALUES - 9, (JSON_BYTES - 9) // (len(value) + 1))
        for count in (within, FAR // (len(value) + 1)):
            yield from _posted(b'{"a":[' + b",".join([value] * count) + b"]}", plain=count == within)
    for start, part, end in ((b'"', b"a", b'"'), (b'"', rb"\u00e9", b'"'), (b"", b"1", b""), (b"", b" ", b"1")):
        for size in (JSON_BYTES - 9, FAR):
            yield from _posted(b'{"a":' + start + part * (size // len(part)) + end + b"}", plain=size < JSON_BYTES)
    data = [b'"' + b"a" * 2**16 + b'"', *[b'""'] * 2**16]  # NumPy would pad each to the longest
    x = b'{"name":"x","datatype":"FP32","shape":[1,1,36,36],"data":[' + b",".join(data) + b"]}"
    yield from _posted(b'{"parameters":{"ray":[0.5,0.5]},"inputs":[' + x + b"]}", plain=True)


def _posted(body: bytes, *, plain: bool) -> Iterator[bytes]:
    """The request packed and, if asked for, plain."""
    head = "POST /v2/models/lenet/infer HTTP/1.1\r\nHost: localhost\r\nContent-Length: {}\r\n{}\r\n"
    packed = gzip.compress(body, 1)
    yield head.format(len(packed), "Content-Encoding: gzip\r\n").encode() + packed
    if plain:
        yield head.format(len(body), "").encode() + body


async def health_during(port: int, hostile: Iterable[bytes]) -> float:
    """The longest time to an answer of a health check while the hostile requests are sent, all at once."""
    message = b"GET /v2/health/live HTTP/1.1\r\nHost: localhost\r\n\r\n"
    prober, slowest, tasks = await Connection().open(port), 0.0, []
    for body in hostile:
        connection = await Connection().open(port)
        tasks.append(asyncio.ensure_future(connection.send(body)))
    while not all(task.done() for task in tasks):
        start = time.perf_counter()
        await prober.send(message)
        slowest = max(slowest, time.perf_counter() - start)
        await asyncio.sleep(0.005)
    for task in tasks:
        task.exception()  # they are refused
    return slowest
