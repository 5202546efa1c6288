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
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Literal

import torch
import uvicorn
from uvicorn.supervisors import Multiprocess

from hyperfront.apps.serve import describe, logs
from hyperfront.apps.serve.app import Application, create_app, settle
from hyperfront.apps.serve.hangup import Terminal
from hyperfront.apps.serve.options import Limits, ServiceOptions
from hyperfront.apps.serve.service import Service, open_run
from hyperfront.apps.serve.sources import find
from hyperfront.apps.serve.tensors import parse
from hyperfront.apps.shared.connections import most_files
from hyperfront.apps.shared.hosts import hosts_for
from hyperfront.apps.shared.listening import address, listen, uvicorn_options
from hyperfront.errors import HyperfrontError

WORKER = "hyperfront.apps.serve.process:worker"
SETTINGS, KEY, SHARED = "HYPERFRONT_SERVE", "HYPERFRONT_API_KEY", "PROMETHEUS_MULTIPROC_DIR"

STARTING = 60
"""Seconds without a sign of life, such as a start on a busy machine, before a worker is replaced."""


@dataclass(frozen=True)
class WorkerOptions:
    """All settings of a worker but the API key, which stays in its own environment variable."""

    runs: tuple[str, ...]
    """``RUN`` or ``NAME=RUN`` for each model."""
    name: str | None = None
    target: str | None = None
    problem: str | None = None
    which: Literal["best", "last"] | None = None
    inputs: tuple[str, ...] = ()
    at: tuple[float, ...] | None = None
    """The ray of requests without one."""
    chosen: bool = False
    """Whether that ray was chosen for these models."""
    data_dir: str | None = None
    threads: int = 1
    cache_bytes: int = 2**28
    batch_rows: int = 64
    cors: tuple[str, ...] = ()
    hosts: tuple[str, ...] = ()
    """The hosts that requests may be addressed to."""
    log_level: str = "info"
    limits: Limits = field(default_factory=Limits)

    def settings(self) -> ServiceOptions:
        return ServiceOptions(self.limits, self.batch_rows, os.environ.get(KEY), tuple(self.cors), tuple(self.hosts))

    def services(self) -> list[Service]:
        """Open all models in all versions."""
        specs = tuple(parse(text) for text in self.inputs)
        return [
            open_run(
                source.path,
                name=source.name,
                version=source.version,
                target=self.target,
                problem=self.problem,
                which=self.which,
                inputs=specs,
                cache_bytes=self.cache_bytes,
                at=self.at,
                data_dir=self.data_dir,
            )
            for source in find(self.runs, self.name)
        ]

    def reopen(self) -> list[Service]:
        """Open what the folders hold now."""
        if self.chosen:
            raise HyperfrontError(
                "the default ray was chosen for the models of the start",
                got="--select",
                fix="restart the server, or start it with --at",
            )
        return self.services()


def worker() -> Application:
    """Make the application of a worker from its environment."""
    threading.Thread(target=_end_with_parent, name="parent", daemon=True).start()
    stored: dict[str, Any] = json.loads(os.environ[SETTINGS])
    app = _app(WorkerOptions(**stored | {"limits": Limits(**stored["limits"])}))
    settle()
    return app


def _end_with_parent() -> None:
    """Stop this worker when its parent process ends: without the parent it could not be stopped, and hold the port."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os.kill(os.getpid(), signal.SIGTERM)


def _app(options: WorkerOptions) -> Application:
    torch.set_num_threads(options.threads)
    app = create_app(*options.services(), settings=options.settings(), reopen=options.reopen)
    logs.set_up(options.log_level)
    return app


def serve(options: WorkerOptions, *, host: str, port: int, workers: int, grace: float) -> None:
    """Serve until a signal. Then open requests get ``grace`` seconds, and new connections are refused."""
    if workers < 1 or options.threads < 1:
        raise HyperfrontError("a server needs at least one worker and one thread", got=(workers, options.threads))
    options = replace(options, hosts=hosts_for(host))
    app = _app(options)  # also made if workers make their own: errors appear once, before the address
    service: Service = app.models.services[0]
    most_files(more=True)
    server_options = uvicorn_options() | {"timeout_graceful_shutdown": max(1, round(grace))}
    with listen(host, port) as listener:
        url = address(host, listener)
        key = app.server.settings.api_key is not None
        attempt = describe.curl(service, url) + (f' -H "Authorization: Bearer ${KEY}"' if key else "")
        hints = {"api_key": "required" if key else "not required", "docs": f"{url}/docs", "try": attempt}
        logs.event("starting", url=url, models=app.models.listed(), workers=workers, **hints)
        if workers == 1:
            settle()
            with contextlib.suppress(KeyboardInterrupt):
                uvicorn.Server(uvicorn.Config(app, **server_options)).run(sockets=[listener])
            gc.unfreeze()  # libraries expect their objects when Python ends
            return
        port = listener.getsockname()[1]
    with tempfile.TemporaryDirectory(prefix="hyperfront-metrics-") as folder, _environment(options, folder):
        server_options["timeout_worker_healthcheck"] = STARTING
        _pass_on_hangups()
        uvicorn.run(WORKER, factory=True, workers=workers, host=host, port=port, **server_options)
    sys.stderr.flush()


def _pass_on_hangups() -> None:
    """Let SIGHUP reload the models of all workers, or end them if the terminal was closed.

    uvicorn would replace the workers, and close connections whose clients are about to send a request.
    """
    terminal = Terminal()

    def pass_on(self: Multiprocess) -> None:
        if terminal.closed():
            self.should_exit.set()
            return
        for process in self.processes:
            if process.pid is not None and process.process.is_alive():
                os.kill(process.pid, signal.SIGHUP)

    Multiprocess.handle_hup = pass_on


@contextlib.contextmanager
def _environment(options: WorkerOptions, folder: str) -> Iterator[None]:
    """Set the environment of workers: options, folder of metrics, and no imports from the current folder."""
    given = {SETTINGS: json.dumps(asdict(options)), SHARED: folder, "PYTHONSAFEPATH": "1"}
    before = {name: os.environ[name] for name in given if name in os.environ}
    os.environ.update(given)
    try:
        yield
    finally:
        for name in given:
            del os.environ[name]
        os.environ.update(before)
