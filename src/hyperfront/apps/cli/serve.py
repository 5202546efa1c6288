"""``hyperfront serve``: a trained run over HTTP."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Annotated, Literal

import tyro

from hyperfront.apps.cli.arguments import DataFolder, OwnProblem, Target, Which, check_port, option
from hyperfront.apps.cli.opening import asks_for_options
from hyperfront.apps.cli.output import console
from hyperfront.errors import HyperfrontError

if TYPE_CHECKING:
    from hyperfront.apps.serve.service import Service

MEGABYTE = 2**20
BODIES = 4
"""Bodies of the largest size that a worker holds at the same time."""


def serve(
    runs: Annotated[tuple[str, ...], option("RUN ...", "Run folders or checkpoint files: RUN or NAME=RUN.")],
    /,
    *,
    host: Annotated[str, tyro.conf.arg(metavar="NAME")] = "127.0.0.1",
    port: Annotated[int, tyro.conf.arg(metavar="N")] = 8000,
    name: Annotated[str | None, option("NAME")] = None,
    at: Annotated[tuple[float, ...], option("NUMBER ...")] = (),
    select: Annotated[str | None, option("TEXT")] = None,
    which: Which = None,
    target: Target = None,
    problem: OwnProblem = None,
    data_dir: DataFolder = None,
    input: Annotated[tuple[str, ...], option("SPEC ...")] = (),
    workers: Annotated[int, tyro.conf.arg(metavar="N")] = 1,
    threads: Annotated[int, tyro.conf.arg(metavar="N")] = 1,
    cache_mb: Annotated[float, tyro.conf.arg(metavar="MB")] = 256,
    batch_rows: Annotated[int, tyro.conf.arg(metavar="N")] = 64,
    max_body_mb: Annotated[float, tyro.conf.arg(metavar="MB")] = 64,
    max_elements: Annotated[int, tyro.conf.arg(metavar="N")] = 2**24,
    max_rows: Annotated[int, tyro.conf.arg(metavar="N")] = 4096,
    max_concurrency: Annotated[int, tyro.conf.arg(metavar="N")] = 1024,
    timeout: Annotated[float, tyro.conf.arg(metavar="SECONDS")] = 30,
    grace: Annotated[float, tyro.conf.arg(metavar="SECONDS")] = 30,
    cors: Annotated[tuple[str, ...], option("ORIGIN ...")] = (),
    log_level: Annotated[Literal["debug", "info", "warning", "error"], tyro.conf.arg(metavar="LEVEL")] = "info",
) -> None:
    """Serve trained runs over HTTP, with the trade-off chosen by each request.

    Clients of the Open Inference Protocol v2 work, and send the ray as one more input. GET /docs explains all routes.
    A folder of folders 1, 2, ... holds versions. SIGHUP reloads all models without losing a request.
    If HYPERFRONT_API_KEY is set, requests must carry it (Authorization: Bearer KEY). Examples:
        hyperfront serve runs/adult --select "minimize error subject to gap <= .05"
        hyperfront serve adult=runs/adult runs/bank --host 0.0.0.0 --workers 4
        hyperfront serve model.safetensors --target mine:Net --input x:FP32:3,64,64

    Args:
        host: Address to listen on; 0.0.0.0 is all of them.
        port: Port to listen on.
        name: Name of the model; by default its folder's.
        at: Default ray, for requests without one.
        select: Default ray: the best within limits, in words.
        input: Inputs without a problem: NAME:DATATYPE:SIZES of one row, -1 for a free size.
        workers: Processes that share the port.
        threads: CPU threads of each worker.
        cache_mb: Cache of weights in each worker.
        batch_rows: Most rows that are answered together.
        max_body_mb: Largest body; a worker holds four times that in all.
        max_elements: Most numbers in one tensor.
        max_rows: Most rows in one request.
        max_concurrency: Most open requests in each worker, then status 429.
        timeout: Longest time to an answer, else 503.
        grace: Longest wait for requests at the end.
        cors: Origins of pages that may call, or "*" for all.
        log_level: debug, info (a line for each request), warning or error.
    """
    try:
        from hyperfront.apps.serve.options import Limits
        from hyperfront.apps.serve.process import WorkerOptions, serve
    except ImportError as error:
        raise HyperfrontError("serving needs more packages", got=error, fix="pip install 'hyperfront[serve]'") from None
    options = WorkerOptions(
        runs=runs,
        name=name,
        target=target,
        problem=problem,
        which=which,
        inputs=input,
        at=at or None,
        data_dir=None if data_dir is None else str(data_dir),
        threads=threads,
        cache_bytes=round(cache_mb * MEGABYTE),
        batch_rows=batch_rows,
        cors=cors,
        log_level=log_level,
        limits=Limits(
            body_bytes=round(max_body_mb * MEGABYTE),
            held_bytes=round(BODIES * max_body_mb * MEGABYTE),
            elements=max_elements,
            rows=max_rows,
            concurrency=max_concurrency,
            seconds=timeout,
        ),
    )
    if at and select is not None:
        raise HyperfrontError("two default rays", got="--at and --select", fix="leave one out")
    with asks_for_options():
        if select is not None:
            options = dataclasses.replace(options, at=_chosen(options.services(), select), chosen=True)
        serve(options, host=host, port=check_port(port), workers=workers, grace=grace)


def _chosen(services: list[Service], sentence: str) -> tuple[float, ...]:
    """The ray of the operating point in words, printed with its losses and scores."""
    from hyperfront.apps.shared.choice import Choice
    from hyperfront.apps.shared.wording import arguments

    if len(services) > 1:
        raise HyperfrontError("a default ray is chosen for one model", got=f"{len(services)} models", fix="--at RAY")
    service = services[0]
    if service.select is None:
        raise HyperfrontError("the run has no front to choose from", got=f"--select {sentence!r}", fix="--at RAY")
    found = service.select(Choice(**arguments(sentence)))
    values = ", ".join(f"{name} {value:.4g}" for name, value in {**found["losses"], **found["scores"]}.items())
    where = "measured on the model" if found["refined"] else "the best of the stored points: there are no data"
    ray = tuple(found["ray"])
    console.print(f"default ray {', '.join(f'{entry:.4g}' for entry in ray)}: {values} ({where})", soft_wrap=True)
    return ray
