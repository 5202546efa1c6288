"""What choosing the trade-off in each request costs: LeNet behind `hyperfront serve`, one process, one CPU thread.

Two servers with the same code take turns under the same load: one of the whole front, one of the plain module
``model.at(ray)``, which gets the same bytes and ignores the ray. A request is one image, as a binary tensor.

    throughput   closed loop over keep-alive connections: at one ray, at 100 rays in rotation, at a new ray each time
    latency      Poisson arrivals at 70 % of the capacity just measured, 100 rays in rotation
    memory       resident memory of the server over many requests with random rays

Bars: throughput .95, .8 and .3 of the plain server's; p99 under 4 times the median; memory flat over 100,000 requests.

    python benchmarks/serving.py
    python benchmarks/serving.py --quick
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import signal
import socket
import statistics
import struct
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

BARS = {"one ray": 0.95, "100 rays": 0.8, "a new ray each": 0.3}
IMAGE = struct.pack("<1296f", *(random.Random(0).random() for _ in range(1296)))
HEADER = {
    "inputs": [
        {"name": "x", "datatype": "FP32", "shape": [1, 1, 36, 36], "parameters": {"binary_data_size": 5184}},
        {"name": "ray", "datatype": "FP32", "shape": [1, 2], "parameters": {"binary_data_size": 8}},
    ],
    "parameters": {"binary_data_output": True},
}


# ---- the servers -----------------------------------------------------------------------------------------------------


def run_server(kind: str, port: int) -> None:
    """In a process of its own: the front, or the plain module behind the same application."""
    import torch
    import uvicorn

    import hyperfront as hf
    from hyperfront.problems.lenet import LeNet
    from hyperfront.serve import logs
    from hyperfront.serve.app import create_app
    from hyperfront.serve.service import serve_model
    from hyperfront.serve.tensors import TensorSpec

    torch.set_num_threads(1)
    torch.manual_seed(0)
    logs.set_up("info")
    model = hf.wrap(LeNet(), ["left", "right"]).eval()
    service = serve_model(model, name="lenet", inputs=[TensorSpec("x", "FP32", (1, 36, 36))])
    if kind == "plain":
        net = model.at([0.5, 0.5])

        @torch.inference_mode()
        def predict(queries: Sequence) -> list[tuple[torch.Tensor, ...]]:
            parts = [query.inputs[0] for query in queries]
            outputs = net(parts[0] if len(parts) == 1 else torch.cat(parts))
            return list(zip(*(output.split([len(part) for part in parts]) for output in outputs)))

        from dataclasses import replace

        service = replace(service, predict=predict, cache=None)
    uvicorn.run(create_app(service), port=port, log_config=None, access_log=False)


class Server:
    def __init__(self, kind: str):
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        command = [sys.executable, __file__, "--server", kind, "--port", str(self.port)]
        self.process = subprocess.Popen(command, env=os.environ | {"OMP_NUM_THREADS": "1"}, stderr=subprocess.DEVNULL)
        while True:
            try:
                socket.create_connection(("127.0.0.1", self.port)).close()
                return
            except OSError:
                assert self.process.poll() is None, "the server did not start"
                time.sleep(0.05)

    def megabytes(self) -> float:
        pages = int(Path(f"/proc/{self.process.pid}/statm").read_text().split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE") / 2**20

    def stop(self) -> None:
        self.process.send_signal(signal.SIGTERM)
        self.process.wait(30)


# ---- the load --------------------------------------------------------------------------------------------------------


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
            assert head.startswith(b"http/1.1 200"), bytes(self.buffer)
            self.buffer.clear()
            self.answer.set_result(None)

    def send(self, message: bytes) -> asyncio.Future:
        self.answer = asyncio.get_running_loop().create_future()
        self.transport.write(message)
        return self.answer


async def throughput(port: int, messages: Iterator[bytes], count: int, connections: int) -> float:
    """Requests a second, in a closed loop."""
    opened = [await Connection().open(port) for _ in range(connections)]
    left = count

    async def client(connection: Connection) -> None:
        nonlocal left
        while left > 0:
            left -= 1
            await connection.send(next(messages))

    start = time.perf_counter()
    await asyncio.gather(*(client(connection) for connection in opened))
    seconds = time.perf_counter() - start
    for connection in opened:
        connection.transport.close()
    return count / seconds


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


# ---- the tables ------------------------------------------------------------------------------------------------------


def measure(options: argparse.Namespace, front: Server, plain: Server, run: Callable) -> None:
    count, connections = options.requests, options.connections
    shares: dict[str, list[float]] = {kind: [] for kind in BARS}
    rates: dict[str, list[float]] = {kind: [] for kind in ("plain", *BARS)}
    streams = {kind: rays(kind) for kind in BARS}
    for turn in range(options.turns + 1):
        base = []
        for kind in BARS:
            before = run(throughput(plain.port, streams["one ray"], count, connections))
            own = run(throughput(front.port, streams[kind], count, connections))
            after = run(throughput(plain.port, streams["one ray"], count, connections))
            base += [before, after]
            if turn:  # the first warms up
                rates[kind].append(own)
                shares[kind].append(own / ((before + after) / 2))
        if turn:
            rates["plain"] += base
    print(f"\nthroughput, {connections} connections, medians of {options.turns} turns of {count} requests")
    print(f"{'':<16}{'requests/s':>11}{'of plain':>10}{'from .. to':>18}{'bar':>6}")
    print(f"{'plain module':<16}{statistics.median(rates['plain']):>11.0f}{'1.00x':>10}")
    for kind, values in shares.items():
        spread = f"{min(values):.2f}x .. {max(values):.2f}x"
        middle = statistics.median(values)
        print(f"{kind:<16}{statistics.median(rates[kind]):>11.0f}{middle:>9.2f}x{spread:>18}{BARS[kind]:>6}")

    capacity = statistics.median(rates["100 rays"])
    found = [
        run(latencies(front.port, streams["100 rays"], options.requests, 0.7 * capacity)) for _ in range(options.turns)
    ]
    print(f"\nlatency at 70 % of capacity ({0.7 * capacity:.0f} requests/s, Poisson), {options.turns} turns")
    print(f"{'p50 ms':>8}{'p90 ms':>8}{'p99 ms':>8}{'p99/p50':>9}{'bar':>5}")
    for values in found:
        p50, p90, p99 = (1000 * values[int(len(values) * share)] for share in (0.5, 0.9, 0.99))
        print(f"{p50:>8.2f}{p90:>8.2f}{p99:>8.2f}{p99 / p50:>9.2f}{'4':>5}")

    print(f"\nmemory over {options.long:,} requests with random rays")
    for part in range(10):
        run(throughput(front.port, streams["a new ray each"], options.long // 10, connections))
        print(f"{(part + 1) * options.long // 10:>9,} requests{front.megabytes():>9.1f} MiB")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--connections", type=int, default=8)
    parser.add_argument("--requests", type=int, default=2000, help="in each turn")
    parser.add_argument("--turns", type=int, default=7)
    parser.add_argument("--long", type=int, default=100_000, help="requests to watch the memory over")
    parser.add_argument("--quick", action="store_true", help="only to see that it runs")
    parser.add_argument("--server", help=argparse.SUPPRESS)
    parser.add_argument("--port", type=int, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.server:
        run_server(options.server, options.port)
        return
    if options.quick:
        options.requests, options.turns, options.long = 300, 2, 2000
    servers = []
    try:
        servers += [Server("front"), Server("plain")]
        with asyncio.Runner() as runner:
            measure(options, *servers, runner.run)
    finally:
        for server in servers:
            server.stop()


if __name__ == "__main__":
    main()
