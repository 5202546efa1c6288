"""The kinds of runs: each begins or continues in a folder, and ends at the same files whatever happened before."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch

import hyperfront as hf
from hyperfront.apps.cli import main
from hyperfront.training import checkpoints
from tests.helpers.runs import Net
from tests.helpers.tables import csv_of, people

EPOCHS = 3
TIMES = ("seconds", "time", "training_seconds", "environment")
"""Keys whose values differ from run to run."""


@dataclass(frozen=True)
class Kind:
    """A kind of run. ``run(folder)`` begins it, or continues what is there."""

    name: str
    run: Callable[[Path], Any]
    varying: tuple[str, ...] = ()
    """Ends of the names of files whose content differs from run to run."""

    def results(self, folder: Path) -> dict[str, Any]:
        """The files of a run by name, as bytes, or as JSON without times."""
        paths = [path for path in sorted(folder.rglob("*")) if path.is_file() and not path.name.startswith("damaged.")]
        found = {str(path.relative_to(folder)): path for path in paths}
        varies = ("environment.json", *self.varying)
        return {name: None if name.endswith(varies) else _content(path) for name, path in found.items()}


def _content(path: Path) -> Any:
    if path.name == "metrics.jsonl":
        return [_without_times(json.loads(line)) for line in path.read_text().splitlines()]
    return _without_times(json.loads(path.read_text())) if path.suffix == ".json" else path.read_bytes()


def _without_times(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_times(part) for key, part in value.items() if key not in TIMES}
    return [_without_times(part) for part in value] if isinstance(value, list) else value


def every_epoch() -> None:
    """Write a checkpoint after every epoch, however short it is."""
    checkpoints.INTERVAL = 0


# ---- your own problem ----------------------------------------------------------------------------------------------


def own_problem(*, loader: bool = False) -> hf.Problem:
    """Two losses on 32 rows, in two batches."""
    draw = torch.Generator().manual_seed(1)
    x = torch.randn(48, 4, generator=draw)
    y = torch.stack([x.sum(1), x.prod(1)], dim=1)
    train: Any = (x[:32], y[:32])
    if loader:
        rows = torch.utils.data.TensorDataset(*train)
        train = torch.utils.data.DataLoader(rows, 16, shuffle=True, generator=torch.Generator().manual_seed(5))
    losses = {
        name: lambda output, batch, j=j: (output[:, 0] - batch[1][:, j]).square().mean()
        for j, name in enumerate(("sum", "product"))
    }
    return hf.supervised(train, (x[32:], y[32:]), losses=losses, reference=(10, 10))


def fit(folder: Path, *, loader: bool = False, wrapped: dict[str, Any] | None = None, **changes: Any) -> None:
    torch.manual_seed(0)
    options = {"generate": "body.*", "hidden": 4} if wrapped is None else wrapped
    model = hf.wrap(Net(), ["sum", "product"], **options)
    settings = {"epochs": EPOCHS, "batch_size": 16, "rays_per_step": 2, "seed": 3, "validation_rays": 3, "lr": 0.05}
    hf.fit(model, own_problem(loader=loader), out=folder, resume=True, callbacks=[], **settings | changes)


def fit_analytic(folder: Path) -> None:
    def losses(x: torch.Tensor) -> torch.Tensor:
        return torch.stack([x.square().sum(-1), (x - 1).square().sum(-1)], -1) + 0.1

    problem = hf.analytic(losses, variables=2, reference=(4, 4))
    torch.manual_seed(0)
    hf.fit(problem.model(hidden=4), problem, epochs=2, out=folder, resume=True, callbacks=[], validation_rays=3)


# ---- commands ------------------------------------------------------------------------------------------------------


def command(*words: str, folder: Path) -> None:
    """Run ``hyperfront`` beside ``folder``, where its paths begin."""
    os.chdir(folder.parent)
    main(list(words))


def train(folder: Path) -> None:
    command("train", "fonseca", "--epochs", "2", "--rays", "3", "--out", folder.name, "--resume", folder=folder)


def train_table(folder: Path) -> None:
    table = folder.with_name("people.csv")
    if not table.exists():
        table.write_text(csv_of(people(rows=120)))
    words = ("--target", "paid", "--sensitive", "group", "--epochs", "2", "--network", "linear")
    command("train", table.name, *words, "--out", folder.name, "--resume", folder=folder)


def compare(folder: Path) -> None:
    words = ("--methods", "phn-ls,ls", "--rays", "3", "--seeds", "1", "--epochs", "1")
    command("compare", "fonseca", *words, "--out", folder.name, folder=folder)


def tune(folder: Path) -> None:
    words = ("--method", "phn-ls", "--search", "lr=1e-3,1e-2", "--epochs", "1", "--rays", "3")
    command("tune", "fonseca", *words, "--out", folder.name, folder=folder)


RAYS = [[0.2, 0.8], [0.7, 0.3]]
FIXED = hf.preferences.FixedRays.of(torch.tensor(RAYS))
SEPARATE = {"hypernet": "separate", "rays": RAYS}
AVERAGE = hf.solvers.chain(hf.solvers.Average(RAYS), hf.EPO())

FITTED = {
    kind.name: kind
    for kind in (
        Kind("hf.fit", fit),
        Kind("hf.fit, aligned", partial(fit, align=True)),
        Kind("hf.fit, patience", partial(fit, patience=1, epochs=6)),
        Kind("hf.fit, a loader", partial(fit, loader=True)),
        Kind("hf.fit, a solver with a state", partial(fit, solver=AVERAGE, preferences=FIXED)),
        Kind("hf.fit, separate models", partial(fit, wrapped=SEPARATE, preferences=FIXED)),
        Kind("hf.fit, every checkpoint kept", partial(fit, keep="all")),
        Kind("hf.fit, analytic", fit_analytic),
    )
}
COMMANDED = {
    kind.name: kind
    for kind in (
        Kind("hyperfront train", train),
        Kind("hyperfront train data.csv", train_table),
        Kind("hyperfront compare", compare, varying=("table.md", "times/ls.json")),
        Kind("hyperfront tune", tune, varying=("trials.db",)),
    )
}
KINDS = FITTED | COMMANDED
