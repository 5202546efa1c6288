"""Where the time of a step goes in a job of processes: computing, sending, waiting for the slowest one."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

import torch
from torch import distributed as dist
from torch import nn

import hyperfront as hf
from hyperfront.training import ranks

WIDTH, ROWS = 256, 1024
STEPS = 30


class Watch:
    """Adds up the seconds that a function takes, and the seconds that its rank first waits for the other ranks."""

    def __init__(self, function: Callable[..., Any]):
        self.function, self.sending, self.waiting, self.numbers = function, 0.0, 0.0, 0

    def __call__(self, tensor: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
        start = time.perf_counter()
        dist.barrier()
        arrived = time.perf_counter()
        found = self.function(tensor, *args, **kwargs)
        self.waiting += arrived - start
        self.sending += time.perf_counter() - arrived
        self.numbers += tensor.numel()
        return found


def timed(solver: hf.LS | hf.EPO) -> dict[str, float]:
    """Medians over steps, in milliseconds, of an MLP of three layers at one ray."""
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.ReLU(), nn.Linear(WIDTH, WIDTH), nn.ReLU(), nn.Linear(WIDTH, 2))
    model = hf.wrap(net, ["left", "right"], hypernet="chunked", hidden=64)
    size = ranks.world_size()
    x = torch.randn(ROWS // size, WIDTH)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    losses = lambda network: tuple(network(x).square().mean(0) + 0.1)  # noqa: E731
    watch, rows = Watch(dist.all_reduce), []
    if size > 1:
        dist.all_reduce = watch
    try:
        for _ in range(STEPS):
            watch.sending = watch.waiting = watch.numbers = 0
            start = time.perf_counter()
            optimizer.zero_grad()
            hf.backward(model, [0.4, 0.6], losses, solver=solver)
            optimizer.step()
            whole = time.perf_counter() - start
            rows.append((whole, whole - watch.sending - watch.waiting, watch.sending, watch.waiting))
    finally:
        dist.all_reduce = watch.function
    names = ("step", "computing", "sending", "waiting")
    found = {name: 1e3 * median(column) for name, column in zip(names, zip(*rows[5:]))}
    return found | {"numbers": watch.numbers, "n": model.target.n}


def measure(file: Path) -> None:
    """What each process of a job does; rank 0 writes the file."""
    if int(os.environ["WORLD_SIZE"]) > 1:
        dist.init_process_group("gloo")
    found = {type(solver).__name__: timed(solver) for solver in (hf.LS(), hf.EPO())}
    if os.environ["RANK"] == "0":
        file.write_text(json.dumps(found))
