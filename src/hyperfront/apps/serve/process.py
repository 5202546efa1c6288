"""A server as processes: one, or several workers that share a port."""

from __future__ import annotations

import json
import os
import socket
import sys
import tempfile
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

import torch
from fastapi import FastAPI

from hyperfront.apps.serve import describe, logs
from hyperfront.apps.serve.app import create_app
from hyperfront.apps.serve.service import Service, open_run
from hyperfront.apps.serve.settings import Limits, Settings
from hyperfront.apps.serve.tensors import parse
from hyperfront.errors import HyperfrontError

PLAN, KEY, SHARED = "HYPERFRONT_SERVE", "HYPERFRONT_API_KEY", "PROMETHEUS_MULTIPROC_DIR"


@dataclass(frozen=True)
class Plan:
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

    def settings(self) -> Settings:
        key = os.environ.get(KEY) or None
        return Settings(self.limits, self.batch_rows, key, tuple(self.cors))

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


def _refuse_taken(host: str, port: int) -> None:
    """An error now, rather than one of uvicorn after the address was announced."""
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
        socket.create_server((host, port), family=family).close()
    except OSError as error:
        raise HyperfrontError(
            "the server cannot listen there", got=f"{host}:{port}: {error.strerror}", fix="another --port or --host"
        ) from None


def worker() -> FastAPI:
    """The application of a worker, as its environment describes it."""
    stored: dict[str, Any] = json.loads(os.environ[PLAN])
    return _app(Plan(**stored | {"limits": Limits(**stored["limits"])}))


def _app(plan: Plan) -> FastAPI:
    torch.set_num_threads(plan.threads)
    app = create_app(plan.service(), plan.settings())
    logs.set_up(plan.log_level)
    return app


def serve(plan: Plan, *, host: str, port: int, workers: int, grace: float) -> None:
    """Serve until a signal; then no new connections, and up to ``grace`` seconds for the requests that are there."""
    import uvicorn

    if workers < 1 or plan.threads < 1:
        raise HyperfrontError("a server needs at least one worker and one thread", got=(workers, plan.threads))
    _refuse_taken(host, port)
    app = _app(plan)  # here too, so that what is wrong is said once, and before anything listens
    service: Service = app.state.server.service
    url = f"http://{host}:{port}"
    hints = {"docs": f"{url}/docs", "try": describe.curl(service, url)}
    logs.event("starting", url=url, model=service.name, workers=workers, **hints)
    options: dict[str, Any] = {
        "host": host,
        "port": port,
        "log_config": None,
        "access_log": False,
        "server_header": False,
        "timeout_keep_alive": 75,
        "timeout_graceful_shutdown": max(1, round(grace)),
    }
    if workers == 1:
        uvicorn.run(app, **options)
        return
    with tempfile.TemporaryDirectory(prefix="hyperfront-metrics-") as folder:
        os.environ[PLAN], os.environ[SHARED] = json.dumps(asdict(plan)), folder
        try:
            uvicorn.run("hyperfront.apps.serve.process:worker", factory=True, workers=workers, **options)
        finally:
            del os.environ[PLAN], os.environ[SHARED]
    sys.stderr.flush()
