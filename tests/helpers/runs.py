"""Small training runs that tests start in processes of their own: ``python -m tests.helpers.runs FOLDER [resume]``."""

from __future__ import annotations

import signal
import sys
import time
from pathlib import Path

import torch
from torch import nn

import hyperfront as hf
from hyperfront.training import Callback


class Slow(Callback):
    """Makes a run last, so that there is time to kill it anywhere."""

    def stepped(self) -> None:
        time.sleep(0.004)


class Signals(Callback):
    """Sends a signal to this process after a number of steps, such as that of Ctrl-C."""

    def __init__(self, number: int, steps: int):
        self.number, self.steps = number, steps

    def stepped(self) -> None:
        self.steps -= 1
        if not self.steps:
            signal.raise_signal(self.number)


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


if __name__ == "__main__":
    torch.set_num_threads(1)
    run(Path(sys.argv[1]), resume="resume" in sys.argv, callbacks=(Slow(),))
