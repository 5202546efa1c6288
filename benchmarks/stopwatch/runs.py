"""Whole runs: training for the paper's number of epochs, and the way from a cold process to a good front."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import torch

import hyperfront as hf
from hyperfront import indicators
from hyperfront.solvers import Solver
from stopwatch.cases import Case


class WholeRun(NamedTuple):
    """A run of ``fit`` and the front it ended with."""

    engine: str
    solver: str
    seed: int
    epochs: int
    training: float
    """Seconds of the epochs, without validation."""
    total: float
    """Seconds of ``fit``, with all that comes before and after."""
    hypervolume: float
    uniformity: float


class ColdRun(NamedTuple):
    """From the start of a process to a validation front of the paper's quality, or to its last epoch."""

    seconds: float
    reached: bool
    epoch: int
    hypervolume: float
    uniformity: float


def train(case: Case, device: torch.device, *, engine: str, epochs: int, seeds: int) -> Iterator[WholeRun]:
    """The paper's recipe with LS and EPO."""
    for solver in (hf.LS(), hf.EPO()):
        for seed in range(seeds):
            yield _whole_run(case, device, engine, solver, epochs, seed)


def _whole_run(case: Case, device: torch.device, engine: str, solver: Solver, epochs: int, seed: int) -> WholeRun:
    recipe = case.recipe
    torch.manual_seed(seed)
    start = time.perf_counter()
    run = hf.fit(
        case.model(device),
        case.problem,
        solver=solver,
        preferences=hf.Dirichlet(recipe.alpha),
        epochs=epochs,
        batch_size=recipe.batch_size,
        lr=recipe.lr,
        schedule=recipe.schedule,
        warmup=recipe.warmup,
        validate_every=epochs,  # at the end, so that the total is not that of 150 validations
        engine=engine,
        seed=seed,
        callbacks=[],
    )
    total = time.perf_counter() - start
    training = sum(record["seconds"] for record in run.history)
    front = hf.evaluate(run.model, case.problem.test)
    volume = indicators.hypervolume(front.losses, front.reference or ())
    name = f"PHN-{type(solver).__name__}"
    return WholeRun(engine, name, seed, len(run.history), training, total, volume, front.uniformity())


def cold(data_dir: Path, device: torch.device, *, epochs: int, rows: int | None, tf32: bool) -> ColdRun:
    command = [sys.executable, str(Path(__file__).with_name("cold.py")), "--data-dir", str(data_dir)]
    command += ["--epochs", str(epochs), "--device", device.type]
    command += [*(["--tf32"] if tf32 else []), *(["--rows", str(rows)] if rows else [])]
    start = time.perf_counter()
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        line = process.stdout.readline()
        seconds = time.perf_counter() - start
    return ColdRun(seconds, **json.loads(line))
