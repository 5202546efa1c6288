"""Traced steps are those of the eager engine, bit by bit, or refused."""

from __future__ import annotations

import random
import signal
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

import hyperfront as hf
from hyperfront.errors import HyperfrontError
from hyperfront.solvers import NormalizeByStart, chain
from hyperfront.training import Callback
from tests.helpers import runs

X = torch.randn(48, 4, generator=torch.Generator().manual_seed(1))
DATA = (X, torch.stack([X.sum(1), X.prod(1)], dim=1))
LOSSES = {
    "sum": lambda output, batch: (output[:, 0] - batch[1][:, 0]).square().mean(),
    "product": lambda output, batch: (output[:, 0] - batch[1][:, 1]).square().mean(),
}


class Smooth(nn.Module):
    """BatchNorm, and a layer to train directly."""

    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.Tanh())
        self.head = nn.Linear(8, 1)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.body(x))


def train(folder: Path, engine: str, *, module=Smooth, losses=None, callbacks: tuple = (), **changes) -> None:
    """Train for 24 steps."""
    torch.manual_seed(0)
    losses = losses or LOSSES
    problem = hf.supervised(DATA, DATA, losses=losses, reference=(10, 10))
    model = hf.wrap(module(), list(losses), generate=changes.pop("generate", "body.*"), hidden=8)
    settings = {"epochs": 4, "batch_size": 8, "seed": 3, "validation_rays": 3, "lr": 0.01} | changes
    hf.fit(model, problem, out=folder, engine=engine, callbacks=callbacks, **settings)


def assert_same_bytes(ours: Path, theirs: Path) -> None:
    for name in ("last.safetensors", "best.safetensors", "front.json"):
        assert (ours / name).read_bytes() == (theirs / name).read_bytes(), name


@pytest.mark.parametrize(
    "changes",
    [
        {"solver": hf.EPO()},
        {"solver": hf.EPO(), "rays_per_step": 2},
        {"solver": chain(NormalizeByStart(), hf.LS()), "rays_per_step": 2, "generate": "*"},
        {"solver": hf.LS(), "optimizer": lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9)},
    ],
    ids=["EPO", "EPO at two rays", "a solver that remembers", "another optimizer"],
)
def test_traced_steps_end_at_the_bytes_of_eager_ones(tmp_path, changes):
    for engine in ("traced", "eager"):
        train(tmp_path / engine, engine, **changes)
    assert_same_bytes(tmp_path / "traced", tmp_path / "eager")


def test_a_run_resumes_with_the_other_engine_at_the_same_bytes(tmp_path):
    train(tmp_path / "whole", "eager")
    for first, second in (("auto", "traced"), ("traced", "auto")):
        with pytest.raises(KeyboardInterrupt):
            train(tmp_path / first, first, callbacks=(runs.Signals(signal.SIGINT, 10),))
        train(tmp_path / first, second, resume=True)
        assert_same_bytes(tmp_path / first, tmp_path / "whole")


class Drops(Smooth):
    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x if random.random() < 0.5 else -x)


class Counts(Smooth):
    calls = 0

    def forward(self, x: Tensor) -> Tensor:
        self.calls += 1
        return super().forward(x)


class Decides(Smooth):
    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x) if x.sum() > 0 else -super().forward(x)


@pytest.mark.parametrize(
    ("module", "reason"), [(Drops, "draws random"), (Counts, "changes numbers"), (Decides, "traced")]
)
def test_what_a_trace_would_get_wrong_is_refused_with_the_reason(tmp_path, module, reason):
    with pytest.raises(HyperfrontError, match=reason):
        train(tmp_path / "traced", "traced", module=module)


class Grows(Callback):
    """Changes a number that a loss reads, late in the run."""

    def __init__(self):
        self.steps, self.factor = 0, 1.0

    def stepped(self) -> None:
        self.steps += 1
        self.factor = 1.0 if self.steps < 16 else 2.0

    def loss(self, output: Tensor, batch: tuple[Tensor, ...]) -> Tensor:
        return self.factor * LOSSES["sum"](output, batch)


def test_a_number_that_changed_is_noticed_at_the_next_epoch(tmp_path):
    grows = Grows()
    with pytest.raises(HyperfrontError, match="other gradients"):
        train(tmp_path / "traced", "traced", losses=LOSSES | {"sum": grows.loss}, callbacks=(grows,))
    assert grows.steps == 18  # steps of 6 an epoch, and a change at the 16th


def test_traced_steps_need_a_cpu():
    model = hf.wrap(nn.Linear(4, 1), list(LOSSES)).to("meta")
    with pytest.raises(HyperfrontError):
        hf.fit(model, hf.supervised(DATA, losses=LOSSES), engine="traced", callbacks=[])
