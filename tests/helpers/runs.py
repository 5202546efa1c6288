"""Small training runs, and processes that end in the middle of one.

``python -m tests.helpers.runs FOLDER SIGNAL STEP ...`` sends itself the signal after so many steps; for each further
step it forks another process, which continues the run and does the same.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import torch
from torch import nn

import hyperfront as hf
from hyperfront.training import Callback


class Signals(Callback):
    """Sends a signal to this process after a number of steps, such as that of Ctrl-C."""

    def __init__(self, number: int, steps: int):
        self.number, self.steps = number, steps

    def stepped(self) -> None:
        self.steps -= 1
        if not self.steps:
            os.kill(os.getpid(), self.number)


class Net(nn.Module):
    """BatchNorm, dropout and a directly trained layer: everything that has a state."""

    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Dropout(0.2))
        self.head = nn.Linear(8, 1)

    def forward(self, x):
        return self.head(self.body(x))


def problem() -> hf.Problem:
    generator = torch.Generator().manual_seed(1)
    x = torch.randn(192, 4, generator=generator)
    y = torch.stack([x.sum(1), x.prod(1)], dim=1)
    return hf.supervised(
        (x[:128], y[:128]),
        (x[128:], y[128:]),
        losses={
            "sum": lambda output, batch: (output[:, 0] - batch[1][:, 0]).square().mean(),
            "product": lambda output, batch: (output[:, 0] - batch[1][:, 1]).square().mean(),
        },
        reference=(10, 10),
    )


def run(folder: Path, *, resume: bool = False, callbacks: tuple = (), **changes) -> hf.Run:
    torch.manual_seed(0)
    model = hf.wrap(Net(), ["sum", "product"], generate="body.*", hidden=8)
    settings = {"epochs": 12, "batch_size": 16, "rays_per_step": 2, "seed": 3, "validation_rays": 5} | changes
    return hf.fit(model, problem(), out=folder, resume=resume, callbacks=list(callbacks), **settings)


def process(folder: Path, number: int, *steps: str) -> subprocess.CompletedProcess:
    """Run this module in a process of its own."""
    root, words = Path(__file__).parents[2], [str(folder), str(int(number)), *steps]
    paths = os.pathsep.join([str(root), str(root / "src")])
    return subprocess.run(
        [sys.executable, "-m", "tests.helpers.runs", *words],
        cwd=root,
        capture_output=True,
        text=True,
        env=os.environ | {"OMP_NUM_THREADS": "1", "PYTHONPATH": paths},
    )


def die_again_and_again(folder: Path, number: int, steps: list[int]) -> None:
    """Continue a run after each of these numbers of steps, the last one in this process; the others are forks of it."""
    for count in steps[:-1]:
        child = os.fork()
        if not child:
            run(folder, resume=True, callbacks=(Signals(number, count),))
            os._exit(0)  # the signal should have ended it
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -number
    run(folder, resume=True, callbacks=(Signals(number, steps[-1]),))


if __name__ == "__main__":
    torch.set_num_threads(1)
    die_again_and_again(Path(sys.argv[1]), int(sys.argv[2]), [int(word) for word in sys.argv[3:]])
