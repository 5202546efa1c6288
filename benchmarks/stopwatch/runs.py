"""Whole runs: training for the paper's number of epochs, and the way from a cold process to a good front."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path
from typing import NamedTuple

import torch

import hyperfront as hf
from stopwatch.cases import Case


class WholeRun(NamedTuple):
    """A run of ``fit`` and the front it ended with."""

    engine: str
    solver: str
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


def train(case: Case, device: torch.device, *, epochs: int | None) -> list[WholeRun]:
    """LS and EPO in every engine that the device has, with the paper's recipe."""
    recipe, runs = case.recipe, []
    for engine in ("graph", "eager") if device.type == "cuda" else ("eager",):
        for name, solver in {"LS": hf.LS(), "EPO": hf.EPO()}.items():
            torch.manual_seed(0)
            start = time.perf_counter()
            run = hf.fit(
                case.model(device),
                case.problem,
                solver=solver,
                preferences=hf.Dirichlet(recipe.alpha),
                epochs=epochs or recipe.epochs,
                batch_size=recipe.batch_size,
                lr=recipe.lr,
                schedule=recipe.schedule,
                warmup=recipe.warmup,
                validate_every=recipe.validate_every,
                engine=engine,
                callbacks=[],
            )
            total = time.perf_counter() - start
            training = sum(record["seconds"] for record in run.history)
            front = hf.evaluate(run.model, case.problem.test)
            volume = hf.metrics.hypervolume(front.losses, front.reference)
            runs.append(WholeRun(engine, name, len(run.history), training, total, volume, front.uniformity()))
    return runs


def cold(data_dir: Path, device: torch.device, *, epochs: int, rows: int | None, tf32: bool) -> ColdRun:
    script = Path(__file__).with_name("cold.py")
    command = [sys.executable, str(script), "--data-dir", str(data_dir), "--epochs", str(epochs)]
    command += ["--device", device.type, *(["--tf32"] if tf32 else []), *(["--rows", str(rows)] if rows else [])]
    start = time.perf_counter()
    found = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    return ColdRun(time.perf_counter() - start, **json.loads(found.stdout))
