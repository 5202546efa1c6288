"""A server as processes: one, or several workers that share a port."""

from __future__ import annotations

import contextlib
import gc
import json
import multiprocessing
import os
import signal
import sys
import tempfile
import threading
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

import torch
import uvicorn
from fastapi import FastAPI

from hyperfront.apps.serve import describe, logs
from hyperfront.apps.serve.app import create_app
from hyperfront.apps.serve.options import Limits, ServiceOptions
from hyperfront.apps.serve.service import Service, open_run
from hyperfront.apps.serve.tensors import parse
from hyperfront.apps.shared.listening import OPTIONS, address, listen
from hyperfront.errors import HyperfrontError

WORKER = "hyperfront.apps.serve.process:worker"
PLAN, KEY, SHARED = "HYPERFRONT_SERVE", "HYPERFRONT_API_KEY", "PROMETHEUS_MULTIPROC_DIR"


@dataclass(frozen=True)
class WorkerOptions:
    """Everything that a worker needs to know, but for the API key: that is in the environment, out of sight."""

    run: str
    name: str | None = None
    target: str | None = None
    problem: str | None = None
    which: Literal["best", "last"] | None = None
    inputs: tuple[str, ...] = ()
    threads: int = 1
    cache_bytes: int = 2**28
    batch_rows: int = 64
    cors: tuple[str, ...] = ()
    log_level: str = "info"
    limits: Limits = field(default_factory=Limits)

    def settings(self) -> ServiceOptions:
        key = os.environ.get(KEY) or None
        return ServiceOptions(self.limits, self.batch_rows, key, tuple(self.cors))

    def service(self) -> Service:
        specs = tuple(parse(text) for text in self.inputs)
        return open_run(
            self.run,
            name=self.name,
            target=self.target,
            problem=self.problem,
            which=self.which,
            inputs=specs,
            cache_bytes=self.cache_bytes,
        )


def worker() -> FastAPI:
    """The application of a worker, as its environment describes it."""
    threading.Thread(target=_end_with_parent, name="parent", daemon=True).start()
    stored: dict[str, Any] = json.loads(os.environ[PLAN])
    app = _app(WorkerOptions(**stored | {"limits": Limits(**stored["limits"])}))
    settle()
    return app


def _end_with_parent() -> None:
    """Stop this worker when the process that started it is gone: it would hold the port without anybody to stop it."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os.kill(os.getpid(), signal.SIGTERM)


def _app(plan: WorkerOptions) -> FastAPI:
    torch.set_num_threads(plan.threads)
    app = create_app(plan.service(), plan.settings())
    logs.set_up(plan.log_level)
    return app


def settle() -> None:
    """Take what start-up made out of garbage collection, which would look through it again and again.

    A full collection stops all requests, for 0.1 s with the objects that the imported libraries have.
    """
    gc.collect()
    gc.freeze()


def serve(plan: WorkerOptions, *, host: str, port: int, workers: int, grace: float) -> None:
    """Serve until a signal; then no new connections, and up to ``grace`` seconds for the requests that are there."""
    if workers < 1 or plan.threads < 1:
        raise HyperfrontError("a server needs at least one worker and one thread", got=(workers, plan.threads))
    app = _app(plan)  # also where workers make their own, so that errors come once and before the address is told
    service: Service = app.state.server.service
    options = OPTIONS | {"timeout_keep_alive": 75, "timeout_graceful_shutdown": max(1, round(grace))}
    with listen(host, port) as listener:
        url = address(host, listener)
        hints = {"docs": f"{url}/docs", "try": describe.curl(service, url)}
        logs.event("starting", url=url, model=service.name, workers=workers, **hints)
        if workers == 1:
            settle()
            with contextlib.suppress(KeyboardInterrupt):
                uvicorn.Server(uvicorn.Config(app, **options)).run(sockets=[listener])
            gc.unfreeze()  # so that libraries find their objects when Python ends
            return
        port = listener.getsockname()[1]
    with tempfile.TemporaryDirectory(prefix="hyperfront-metrics-") as folder, _environment(plan, folder):
        patience = {"timeout_worker_healthcheck": 60}  # a worker that starts on a busy machine is not a dead one
        uvicorn.run(WORKER, factory=True, workers=workers, host=host, port=port, **options, **patience)
    sys.stderr.flush()


@contextlib.contextmanager
def _environment(plan: WorkerOptions, folder: str) -> Iterator[None]:
    """The environment of workers: the plan, the folder of their metrics, and no imports from the current folder."""
    given = {PLAN: json.dumps(asdict(plan)), SHARED: folder, "PYTHONSAFEPATH": "1"}
    before = {name: os.environ[name] for name in given if name in os.environ}
    os.environ.update(given)
    try:
        yield
    finally:
        for name in given:
            del os.environ[name]
        os.environ.update(before)
