"""What choosing the trade-off in each request costs: LeNet behind `hyperfront serve`, one process, one CPU thread.

Two servers with the same code take turns under the same load: one of the whole front, one of the plain module
``model.at(ray)``, which gets the same bytes and ignores the ray. A request is one image, as a binary tensor.

    throughput   closed loop over 8 keep-alive connections: at one ray, at 100 rays in rotation, at a new ray each time
    latency      Poisson arrivals at 70 % of the capacity just measured, 100 rays in rotation
    load         closed loop over 16 and over 64 connections
    health       GET /v2/health/live while bodies arrive that are hard to parse
    memory       resident memory of the server over many requests with random rays

Requests are counted per second of the clock, and per second that the server had the processor: on a machine that others
use too, the second is the one to compare. Bars: throughput .95, .8 and .35 of the plain server's; p99 under 3 times the
median latency; under load, p999 under 3 times the median in processor seconds (5 to 17 times without ``gc.freeze``);
health within 100 ms; memory flat over 100,000 requests.

    python benchmarks/serving.py
    python benchmarks/serving.py --quick
"""

from __future__ import annotations

import argparse
import asyncio
import os
import signal
import socket
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

from stopwatch.load import Connection, burst, closed_loop, health_during, hostile_requests, latencies, rays

CONNECTIONS, BURST, LATENCY_TURNS = 8, 80, 9
BARS = {"one ray": 0.95, "100 rays": 0.8, "a new ray each": 0.35}
LATENCY_BAR = 3
"""The largest p99 / p50 at Poisson arrivals."""
LOAD, LOAD_BAR = (16, 64), 3
"""Numbers of connections; the largest p999 / p50 of the processor time that the server has during a request."""
HEALTH_BAR = 100.0
"""The most milliseconds until a health check is answered, whatever else arrives."""


# ---- the servers -----------------------------------------------------------------------------------------------------


def run_server(kind: str, port: int) -> None:
    """In a process of its own: the front, or the plain module behind the same application."""
    import torch
    import uvicorn

    import hyperfront as hf
    from hyperfront.apps.serve import logs
    from hyperfront.apps.serve.app import create_app, settle
    from hyperfront.apps.serve.options import Limits, ServiceOptions
    from hyperfront.apps.serve.service import serve_model
    from hyperfront.apps.serve.tensors import TensorMetadata
    from hyperfront.apps.shared.listening import uvicorn_options
    from hyperfront.zoo.lenet import LeNet

    torch.set_num_threads(1)
    torch.manual_seed(0)
    logs.set_up("info")
    model = hf.wrap(LeNet(), ["left", "right"]).eval()
    service = serve_model(model, name="lenet", inputs=[TensorMetadata("x", "FP32", (1, 36, 36))])
    if kind == "plain":
        net = model.at([0.5, 0.5])

        @torch.inference_mode()
        def predict(queries: Sequence) -> list[tuple[torch.Tensor, ...]]:
            parts = [query.inputs[0] for query in queries]
            outputs = net(parts[0] if len(parts) == 1 else torch.cat(parts))
            return list(zip(*(output.split([len(part) for part in parts]) for output in outputs)))

        from dataclasses import replace

        service = replace(service, predict=predict, cache=None)  # its estimates of time stay: the same batches
    settings = ServiceOptions(Limits(concurrency=10_000))  # machines that others use too stop now and then
    app = create_app(service, settings=settings)
    settle()
    uvicorn.run(app, port=port, **uvicorn_options())


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

    def busy(self) -> float:
        """Seconds that its threads have had a processor, by the clock that clock_getcpuclockid(3) names on Linux."""
        return time.clock_gettime(~self.process.pid << 3 | 2)

    def megabytes(self) -> float:
        pages = int(Path(f"/proc/{self.process.pid}/statm").read_text().split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE") / 2**20

    def stop(self) -> None:
        self.process.send_signal(signal.SIGTERM)
        self.process.wait(180)


# ---- the tables ------------------------------------------------------------------------------------------------------


class Cost(NamedTuple):
    """Seconds of the clock, and of the server's processor time."""

    clock: float
    busy: float


def measure_throughput(options: argparse.Namespace, front: Server, plain: Server, run: Callable) -> float:
    """Short bursts in turn, each with one of the plain server before it, so that both meet the same weather; times are
    added up. Returns the capacity."""
    streams = {kind: rays(kind) for kind in BARS}
    opened = {server: [run(Connection().open(server.port)) for _ in range(CONNECTIONS)] for server in (front, plain)}
    costs: dict[str, list[Cost]] = {name: [] for name in BARS}
    beside: dict[str, list[Cost]] = {name: [] for name in BARS}

    def cost(server: Server, kind: str) -> Cost:
        start = server.busy()
        clock = run(burst(opened[server], streams[kind], BURST))
        return Cost(clock, server.busy() - start)

    for kind in BARS:
        for turn in range(-options.warm_up, options.turns):
            pair = cost(plain, "one ray"), cost(front, kind)
            if turn >= 0:
                beside[kind].append(pair[0])
                costs[kind].append(pair[1])
    print(f"\nthroughput, {CONNECTIONS} connections, {options.turns} bursts of {BURST} requests")
    print(f"{'':<16}{'per second':>11}{'of plain':>9}{'per busy second':>17}{'of plain':>9}{'parts':>15}{'bar':>6}")
    everything = [found for some in beside.values() for found in some]
    print(f"{'plain module':<16}{_rate(everything, 0):>11.0f}{_rate(everything, 1):>26.0f}")
    for kind, found in costs.items():
        line = f"{kind:<16}"
        for field, width in ((0, 11), (1, 17)):
            line += f"{_rate(found, field):>{width}.0f}{_rate(found, field) / _rate(beside[kind], field):>8.2f}x"
        tenths = [slice(k * len(found) // 10, (k + 1) * len(found) // 10) for k in range(10)]
        parts = sorted(_rate(found[part], 1) / _rate(beside[kind][part], 1) for part in tenths)
        print(f"{line}{parts[2]:>7.2f} .. {parts[7]:.2f}{BARS[kind]:>6}")
    for connection in [c for some in opened.values() for c in some]:
        connection.transport.close()
    return _rate(costs["100 rays"], 0)


def _rate(costs: Sequence[Cost], field: int) -> float:
    return BURST * len(costs) / sum(cost[field] for cost in costs)


def measure_latency(options: argparse.Namespace, front: Server, capacity: float, run: Callable) -> None:
    print(f"\nlatency at 70 % of that ({0.7 * capacity:.0f} requests a second); bar: p99 / p50 < {LATENCY_BAR}")
    print(f"{'p50 ms':>8}{'p90 ms':>8}{'p99 ms':>8}{'p99 / p50':>11}")
    ratios = []
    for _ in range(LATENCY_TURNS):
        found = run(latencies(front.port, rays("100 rays"), 10 * options.turns, 0.7 * capacity))
        p50, p90, p99 = (1000 * found[int(len(found) * share)] for share in (0.5, 0.9, 0.99))
        ratios.append(p99 / p50)
        print(f"{p50:>8.2f}{p90:>8.2f}{p99:>8.2f}{ratios[-1]:>11.2f}")
    print(f"{'median':>24}{statistics.median(ratios):>11.2f}")


def measure_load(options: argparse.Namespace, front: Server, run: Callable) -> None:
    print(f"\nclosed loop, 100 rays in rotation; bar: p999 / p50 < {LOAD_BAR}, in processor seconds")
    header = f"{'connections':>11}{'per second':>12}{'time of':>12}{'p50 ms':>9}{'p99 ms':>9}{'p999 ms':>9}"
    print(f"{header}{'p999 / p50':>12}")
    seconds = max(1.0, options.turns / 20)
    for connections in LOAD:
        times = run(closed_loop(front.port, rays("100 rays"), connections, seconds, front.busy))
        for name, found in zip(("clock", "processor"), times):
            p50, p99, p999 = (1000 * found[int(len(found) * share)] for share in (0.5, 0.99, 0.999))
            line = f"{connections:>11}{len(found) / seconds:>12.0f}{name:>12}{p50:>9.2f}{p99:>9.2f}{p999:>9.2f}"
            print(f"{line}{p999 / p50:>12.2f}")


def measure_health(front: Server, run: Callable) -> None:
    """Health checks while bodies arrive that are as hard to parse as the limits allow, and harder."""
    slowest = run(health_during(front.port, list(hostile_requests())))
    print(f"\nhealth during hostile bodies: slowest {1000 * slowest:.0f} ms, bar {HEALTH_BAR:.0f} ms")


def measure_memory(options: argparse.Namespace, front: Server, run: Callable) -> None:
    print(f"\nmemory over {options.long:,} requests with random rays")
    messages = rays("a new ray each")
    opened = [run(Connection().open(front.port)) for _ in range(CONNECTIONS)]
    for part in range(10):
        run(burst(opened, messages, options.long // 10))
        print(f"{(part + 1) * options.long // 10:>9,} requests{front.megabytes():>9.1f} MiB", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--turns", type=int, default=200)
    parser.add_argument("--warm-up", type=int, default=20, help="bursts before those that count")
    parser.add_argument("--long", type=int, default=100_000, help="requests to watch the memory over")
    parser.add_argument("--quick", action="store_true", help="only to see that it runs")
    parser.add_argument("--server", help=argparse.SUPPRESS)
    parser.add_argument("--port", type=int, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.server:
        run_server(options.server, options.port)
        return
    if options.quick:
        options.turns, options.warm_up, options.long = 10, 1, 500
    servers = []
    try:
        servers += [Server("front"), Server("plain")]
        with asyncio.Runner() as runner:
            capacity = measure_throughput(options, *servers, runner.run)
            measure_latency(options, servers[0], capacity, runner.run)
            measure_load(options, servers[0], runner.run)
            measure_health(servers[0], runner.run)
            measure_memory(options, servers[0], runner.run)
    finally:
        for server in servers:
            server.stop()


if __name__ == "__main__":
    main()
