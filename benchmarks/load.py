"""The server under load, beside plain uvicorn and orjson with the same module: throughput and latency by wrk.

Both are one process with one CPU thread and get the same JSON: one row, and a ray that the plain server ignores. The
plain server parses it, runs the module ``model.at(ray)``, and writes the same JSON; it checks and limits nothing.
Modules:

    table   14 columns, two hidden layers of 64: almost all of the time is HTTP and JSON
    lenet   an image of 36 x 36 as JSON

    closed loop   wrk with one thread over 1, 16, 64, 250 and 1,000 connections
    overload      twice the capacity at 64 connections, over 1,000 connections
    hostile       bombs, held bodies, endless headers and silent connections beside a normal load of 16 connections

"Busy" counts answers per second in which the server had the processor. Client and server share the machine's cores;
with 2 cores, anything else that runs is seen. Bars: at 64 connections .8 of the plain server's throughput; p99 at 16
connections 5 ms and at 250 connections 60 ms; health within 100 ms in overload and beside hostile clients.

    python benchmarks/load.py
    python benchmarks/load.py --quick
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import socket
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

from stopwatch import wrk
from stopwatch.hostile import attack

CONNECTIONS, CAPACITY, OVERLOAD, NORMAL = (1, 16, 64, 250, 1000), 64, 1000, 16
SHAPES = {"table": [14], "lenet": [1, 36, 36]}
PATH = "/v2/models/lenet/infer"
HEALTH = b"GET /v2/health/live HTTP/1.1\r\nHost: localhost\r\n\r\n"


def body(module: str) -> str:
    """A request for one row."""
    shape = [1, *SHAPES[module]]
    count = SHAPES[module][-1] ** len(SHAPES[module][-2:])
    x = {"name": "x", "datatype": "FP32", "shape": shape, "data": [round(k / count - 0.5, 4) for k in range(count)]}
    return json.dumps({"parameters": {"ray": [0.5, 0.5]}, "inputs": [x]})


# ---- the servers -----------------------------------------------------------------------------------------------------


def run_server(kind: str, module: str, port: int, level: str) -> None:
    """In a process of its own: hyperfront's server or the plain one."""
    import torch
    import uvicorn
    from torch import nn

    import hyperfront as hf
    from hyperfront.apps.serve import logs
    from hyperfront.apps.serve.app import create_app, settle
    from hyperfront.apps.serve.service import serve_model
    from hyperfront.apps.serve.tensors import TensorMetadata
    from hyperfront.apps.shared.connections import most_files
    from hyperfront.apps.shared.listening import uvicorn_options
    from hyperfront.zoo.lenet import LeNet

    torch.set_num_threads(1)
    torch.manual_seed(0)
    layers = [nn.Linear(14, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 1)]
    model = hf.wrap(nn.Sequential(*layers) if module == "table" else LeNet(), ["a", "b"]).eval()
    if kind == "plain":
        app, options = plain_app(model.at([0.5, 0.5])), {"log_config": None, "access_log": False}
    else:
        logs.set_up(level)
        most_files(more=True)
        app = create_app(serve_model(model, name="lenet", inputs=[TensorMetadata("x", "FP32", tuple(SHAPES[module]))]))
        options = uvicorn_options()
    settle()
    uvicorn.run(app, port=port, **options)


def plain_app(module):
    """The least that answers: no limits, no checks, no errors."""
    import orjson
    import torch

    async def app(scope, receive, send) -> None:
        while scope["type"] == "lifespan":
            message = await receive()
            await send({"type": message["type"] + ".complete"})
            if message["type"] == "lifespan.shutdown":
                return
        found, more = b"", True
        while more:
            message = await receive()
            found += message["body"]
            more = message["more_body"]
        (x,) = orjson.loads(found)["inputs"]
        with torch.inference_mode():
            outputs = module(torch.tensor(x["data"]).reshape(x["shape"]))
        outputs = [output.numpy() for output in (outputs if isinstance(outputs, tuple) else [outputs])]
        entries = [
            {"name": f"output_{k}", "datatype": "FP32", "shape": list(output.shape), "data": output.reshape(-1)}
            for k, output in enumerate(outputs)
        ]
        document = {"model_name": "lenet", "model_version": "1", "outputs": entries}
        reply = orjson.dumps(document, option=orjson.OPT_SERIALIZE_NUMPY)
        headers = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(reply))]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": reply})

    return app


@contextmanager
def server(kind: str, module: str, level: str = "info") -> Iterator[tuple[int, subprocess.Popen]]:
    """A server while it runs: its port and its process."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [sys.executable, __file__, "--server", kind, module, str(port), level]
    process = subprocess.Popen(command, env=os.environ | {"OMP_NUM_THREADS": "1"}, stderr=subprocess.DEVNULL)
    try:
        while True:
            try:
                socket.create_connection(("127.0.0.1", port)).close()
                break
            except OSError:
                assert process.poll() is None, "the server did not start"
                time.sleep(0.05)
        yield port, process
    finally:
        process.terminate()
        process.wait(180)


def busy(process: subprocess.Popen) -> float:
    """Seconds that its threads have had a processor, by the clock that clock_getcpuclockid(3) names on Linux."""
    return time.clock_gettime(~process.pid << 3 | 2)


# ---- the tables ------------------------------------------------------------------------------------------------------


def closed_loop(module: str, options: argparse.Namespace) -> float:
    """Print throughput and latencies; both servers take turns. Returns the capacity."""
    print(f"\n{module}: closed loop, {options.turns} turns of {options.seconds:g} s each, medians")
    print(f"{'connections':>11}{'server':>22}{'per second':>12}{'of plain':>10}{'busy':>9}{'of plain':>10}", end="")
    print(f"{'p50 ms':>9}{'p99 ms':>9}{'p999 ms':>9}{'lost':>6}")
    capacity = 0.0
    kinds = {"plain": "info", "hyperfront": "info", "hyperfront, no log": "warning"}
    with server("plain", module) as plain, server("front", module) as front, server("front", module, "warning") as mute:
        opened = dict(zip(kinds, (plain, front, mute)))
        for connections in options.connections:
            found: dict[str, list[tuple[wrk.Load, float]]] = {kind: [] for kind in kinds}
            for _ in range(options.turns):
                for kind, (port, process) in opened.items():
                    before = busy(process)
                    load = wrk.finish(wrk.start(port, PATH, body(module), connections, options.seconds))
                    found[kind].append((load, load.good / (busy(process) - before)))
            for kind, loads in found.items():
                rate, work = (statistics.median(row) for row in zip(*((load.rate, work) for load, work in loads)))
                parts = zip(rate_and_busy(loads), rate_and_busy(found["plain"]))
                shares = [statistics.median(a / b for a, b in zip(ours, theirs)) for ours, theirs in parts]
                times = [(load.p50, load.p99, load.p999) for load, _ in loads]
                p50, p99, p999 = (statistics.median(column) for column in zip(*times))
                lost = sum(load.requests - load.good + load.lost for load, _ in loads)
                line = f"{connections:>11}{kind:>22}{rate:>12.0f}{shares[0]:>9.2f}x{work:>9.0f}{shares[1]:>9.2f}x"
                print(f"{line}{p50:>9.2f}{p99:>9.2f}{p999:>9.2f}{lost:>6}", flush=True)
                if kind == "hyperfront" and connections == min(CAPACITY, options.connections[-1]):
                    capacity = rate
    return capacity


def rate_and_busy(loads: list[tuple[wrk.Load, float]]) -> tuple[list[float], list[float]]:
    return [load.rate for load, _ in loads], [work for _, work in loads]


def slowest_health(port: int, load: subprocess.Popen) -> float:
    """The longest time of a health check in milliseconds while ``load`` runs."""
    slowest = 0.0
    with socket.create_connection(("127.0.0.1", port)) as prober:
        while load.poll() is None:
            start = time.perf_counter()
            prober.sendall(HEALTH)
            answer = b""
            while not answer.endswith(b"}"):
                part = prober.recv(4096)
                assert part, "the connection was closed"
                answer += part
            assert answer.startswith(b"HTTP/1.1 200"), answer
            slowest = max(slowest, time.perf_counter() - start)
            time.sleep(0.01)
    return 1000 * slowest


def measure_overload(module: str, capacity: float, options: argparse.Namespace) -> None:
    print(f"\n{module}: twice the capacity, {2 * capacity:.0f} requests a second over {OVERLOAD} connections")
    with server("front", module) as (port, _):
        load = wrk.start(port, PATH, body(module), OVERLOAD, options.seconds, 2 * capacity)
        health = slowest_health(port, load)
        found = wrk.finish(load)
    refused = f"{found.refused + found.late} refused (429, 503), {found.other} other, {found.lost} lost"
    print(f"{found.requests} sent, {found.good} answered ({found.rate:.0f} a second), {refused}")
    print(f"p50 {found.p50:.1f} ms, p99 {found.p99:.1f} ms, health: slowest {health:.0f} ms, bar 100 ms")


def measure_hostile(module: str, options: argparse.Namespace) -> None:
    print(f"\n{module}: {NORMAL} normal connections beside hostile clients")
    with server("front", module) as (port, _):
        command = [sys.executable, __file__, "--hostile", str(port), str(options.seconds + 2)]
        hostile = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        time.sleep(2)  # their bodies take a second to make
        load = wrk.start(port, PATH, body(module), NORMAL, options.seconds)
        health = slowest_health(port, load)
        found = wrk.finish(load)
        sent, _ = hostile.communicate()
    print(f"sent: {sent.strip()}")
    print(f"normal: {found.rate:.0f} a second, {found.requests - found.good} refused, {found.lost} lost, ", end="")
    print(f"p50 {found.p50:.1f} ms, p99 {found.p99:.1f} ms; health: slowest {health:.0f} ms, bar 100 ms")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=5)
    parser.add_argument("--modules", nargs="+", choices=[*SHAPES], default=[*SHAPES])
    parser.add_argument("--connections", nargs="+", type=int, default=CONNECTIONS)
    parser.add_argument("--quick", action="store_true", help="only to see that it runs")
    parser.add_argument("--server", nargs=4, help=argparse.SUPPRESS)
    parser.add_argument("--hostile", nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.server:
        kind, module, port, level = options.server
        run_server(kind, module, int(port), level)
        return
    if options.hostile:
        found = asyncio.run(attack(int(options.hostile[0]), float(options.hostile[1])))
        print(", ".join(f"{count} {kind}" for kind, count in found.items()))
        return
    if wrk.PROGRAM is None:
        print(wrk.MISSING)
        return
    if options.quick:
        options.turns, options.seconds, options.modules, options.connections = 1, 1, ["table"], [4]
    for module in options.modules:
        capacity = closed_loop(module, options)
        measure_overload(module, capacity, options)
        measure_hostile(module, options)


if __name__ == "__main__":
    main()
