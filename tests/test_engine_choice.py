"""The engine that is chosen by measurement takes the steps of the eager one, bit by bit, whatever it chooses."""

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
from hyperfront.training import Callback, Progress
from hyperfront.training.engines import measured
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


class Told(Callback):
    def __init__(self):
        self.lines = []

    def told(self, line: str) -> None:
        self.lines.append(line)


@pytest.fixture
def quickly(monkeypatch):
    """Choose after two steps of any run. Tests replace the stopwatch, which must not decide about them."""
    monkeypatch.setattr(measured, "WARM", 2)
    monkeypatch.setattr(measured, "WORTH", 0.0)
    timed = measured._medians

    def stopwatch(*functions) -> tuple[float, float]:
        timed(*functions)  # it must leave no trace in the run
        return 2e-3, 1e-3

    monkeypatch.setattr(measured, "_medians", stopwatch)


def train(folder: Path, engine: str, *, module=Smooth, losses=None, callbacks: tuple = (), **changes) -> list[str]:
    """Train for 24 steps, and return the lines that the run told."""
    torch.manual_seed(0)
    losses, told = losses or LOSSES, Told()
    problem = hf.supervised(DATA, DATA, losses=losses, reference=(10, 10))
    model = hf.wrap(module(), list(losses), generate=changes.pop("generate", "body.*"), hidden=8)
    settings = {"epochs": 4, "batch_size": 8, "seed": 3, "validation_rays": 3, "lr": 0.01} | changes
    hf.fit(model, problem, out=folder, engine=engine, callbacks=[told, *callbacks], **settings)
    return told.lines


def assert_same_bytes(ours: Path, theirs: Path) -> None:
    for name in ("last.safetensors", "best.safetensors", "front.json"):
        assert (ours / name).read_bytes() == (theirs / name).read_bytes(), name


@pytest.mark.usefixtures("quickly")
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
    lines = train(tmp_path / "auto", "auto", **changes)
    assert len(lines) == 1 and "engine: traced; 1.00 ms a gradient traced, 2.00 ms eager" in lines[0]
    assert train(tmp_path / "eager", "eager", **changes) == []
    assert_same_bytes(tmp_path / "auto", tmp_path / "eager")


@pytest.mark.usefixtures("quickly")
def test_a_run_resumes_with_the_other_engine_at_the_same_bytes(tmp_path):
    train(tmp_path / "whole", "eager")
    for first, second in (("auto", "eager"), ("traced", "auto")):
        with pytest.raises(KeyboardInterrupt):
            train(tmp_path / first, first, callbacks=(runs.Signals(signal.SIGINT, 10),))
        train(tmp_path / first, second, resume=True)
        assert_same_bytes(tmp_path / first, tmp_path / "whole")


@pytest.mark.usefixtures("quickly")
def test_slower_traced_steps_are_not_taken(tmp_path, monkeypatch):
    monkeypatch.setattr(measured, "_medians", lambda *functions: (1e-3, 2e-3))
    assert train(tmp_path, "auto") == ["engine: eager; 2.00 ms a gradient traced, 1.00 ms eager, the same numbers"]


def test_short_runs_stay_eager_and_say_nothing(tmp_path):
    assert train(tmp_path, "auto") == []


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


@pytest.mark.usefixtures("quickly")
@pytest.mark.parametrize(
    ("module", "reason"), [(Drops, "draws random"), (Counts, "changes numbers"), (Decides, "traced")]
)
def test_what_a_trace_would_get_wrong_stays_eager_with_the_reason(tmp_path, module, reason):
    random.seed(0)
    (line,) = train(tmp_path / "auto", "auto", module=module)
    assert line.startswith("engine: eager; the step") and reason in line
    random.seed(0)
    train(tmp_path / "eager", "eager", module=module)
    assert_same_bytes(tmp_path / "auto", tmp_path / "eager")


class Grows(Callback):
    """Changes a number that a loss reads, late in the run."""

    def __init__(self):
        self.steps, self.factor = 0, 1.0

    def stepped(self) -> None:
        self.steps += 1
        self.factor = 1.0 if self.steps < 16 else 2.0

    def loss(self, output: Tensor, batch: tuple[Tensor, ...]) -> Tensor:
        return self.factor * LOSSES["sum"](output, batch)


@pytest.mark.usefixtures("quickly")
def test_a_number_that_changes_ends_tracing_with_a_warning(tmp_path, monkeypatch):
    monkeypatch.setattr(measured, "CHECK", 1)  # so that no step is taken with the old number
    grows = Grows()
    with pytest.warns(UserWarning, match="from here on, steps run one by one"):
        lines = train(tmp_path / "auto", "auto", losses=LOSSES | {"sum": grows.loss}, callbacks=(grows,))
    assert "traced" in lines[0]
    grows = Grows()
    train(tmp_path / "eager", "eager", losses=LOSSES | {"sum": grows.loss}, callbacks=(grows,))
    assert_same_bytes(tmp_path / "auto", tmp_path / "eager")


@pytest.mark.usefixtures("quickly")
def test_the_progress_shows_the_choice(tmp_path, capsys):
    train(tmp_path, "auto", callbacks=(Progress(),))
    assert capsys.readouterr().err.count("engine: traced") == 1


def test_traced_steps_need_a_cpu():
    model = hf.wrap(nn.Linear(4, 1), list(LOSSES)).to("meta")
    with pytest.raises(HyperfrontError):
        hf.fit(model, hf.supervised(DATA, losses=LOSSES), engine="traced", callbacks=[])
