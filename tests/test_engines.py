"""Engines take the same steps, and say why where they cannot. What needs a GPU is in test_cuda."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import warnings
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import hyperfront as hf
from hyperfront.errors import HyperfrontError
from hyperfront.solvers import NormalizeByStart, chain
from hyperfront.training import Callback
from hyperfront.training.engines import graph
from hyperfront.training.engines.compiled import compiled
from hyperfront.training.engines.graph import NotCapturable
from hyperfront.training.engines.tracing import NotCompilable, TracedStep
from tests.helpers import runs


def tiny(engine: str, solver: hf.Solver, rays_per_step: int) -> hf.Run:
    """One step in each epoch, so that the records are the steps."""
    torch.manual_seed(0)
    x = torch.randn(12, 3)
    problem = hf.supervised(
        (x, x.sum(1, keepdim=True)),
        losses={
            "sum": lambda output, batch: (output - batch[1]).square().mean(),
            "size": lambda output, batch: output.square().mean(),
        },
    )
    model = hf.wrap(nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 1)), ["sum", "size"], hidden=4)
    settings = {"epochs": 4, "batch_size": 12, "rays_per_step": rays_per_step, "solver": solver, "callbacks": []}
    return hf.fit(model, problem, engine=engine, lr=0.01, warmup=2, **settings)


def losses(run: hf.Run) -> torch.Tensor:
    return torch.tensor([list(record["losses"].values()) for record in run.history])


def test_an_unknown_engine_is_an_error_that_suggests_one():
    with pytest.raises(HyperfrontError, match="did you mean 'graph'"):
        tiny("grph", hf.LS(), 1)


def test_a_graph_on_a_cpu_is_an_error_that_says_why_and_auto_is_silent():
    with pytest.raises(NotCapturable, match="not on a CUDA device"):
        tiny("graph", hf.LS(), 1)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert torch.equal(losses(tiny("auto", hf.LS(), 1)), losses(tiny("eager", hf.LS(), 1)))


class Remembers(hf.LS):
    """A solver of a user's own that will remember something, but has nothing to remember yet."""

    def state(self) -> dict:
        return {}

    def load(self, state: dict) -> None: ...


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"optimizer": lambda p: torch.optim.Adagrad(p, lr=0.1)}, "Adagrad"),
        ({"optimizer": lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9, dampening=0.5)}, "dampening"),
        ({"solver": chain(NormalizeByStart(), hf.LS())}, "remembers"),
        ({"solver": Remembers()}, "remembers"),
        ({"problem": hf.supervised([(torch.ones(4, 4), torch.ones(4, 2))], losses=runs.problem().measures)}, "loader"),
    ],
)
def test_what_a_graph_cannot_hold_is_refused_with_the_reason(monkeypatch, changes, reason):
    monkeypatch.setattr(graph, "on_gpu", lambda *tensors: True)
    settings = {"problem": runs.problem(), "solver": hf.LS(), "engine": "graph", "batch_size": 16, "callbacks": []}
    with pytest.raises(NotCapturable, match=reason):
        hf.fit(hf.wrap(runs.Net(), ["sum", "product"], hidden=4), **settings | changes)


@pytest.mark.skipif(shutil.which(os.environ.get("CXX", "g++")) is None, reason="torch.compile needs a C++ compiler")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of what torch.compile imports
@pytest.mark.parametrize(("solver", "rays"), [(hf.LS(), 3), (hf.EPO(), 1)], ids=["LS", "EPO"])
def test_compiled_steps_are_the_eager_ones(solver, rays):
    torch._dynamo.utils.counters.clear()
    compiled = tiny("compiled", solver, rays)
    assert torch._dynamo.utils.counters["stats"]["unique_graphs"]
    eager = tiny("eager", solver, rays)
    torch.testing.assert_close(losses(compiled), losses(eager), atol=1e-6, rtol=1e-5)
    for ours, theirs in zip(compiled.model.parameters(), eager.model.parameters()):
        torch.testing.assert_close(ours, theirs, atol=1e-5, rtol=1e-4)


@pytest.mark.slow
@pytest.mark.skipif(shutil.which(os.environ.get("CXX", "g++")) is None, reason="torch.compile needs a C++ compiler")
def test_a_second_process_finds_the_compiled_code(tmp_path):
    code = """
import torch, hyperfront as hf
x = torch.randn(64, 3)
problem = hf.supervised((x,), losses={"a": lambda y, b: y.square().mean(), "b": lambda y, b: (y - 1).square().mean()})
model = hf.wrap(torch.nn.Linear(3, 1), ["a", "b"], hidden=4)
hf.fit(model, problem, solver=hf.LS(), epochs=1, batch_size=32, engine="compiled", callbacks=[])
print(torch._dynamo.utils.counters["inductor"]["fxgraph_cache_hit"])
"""
    environment = os.environ | {"TORCHINDUCTOR_CACHE_DIR": str(tmp_path)}
    words = [sys.executable, "-W", "ignore", "-c", code]
    hits = [int(subprocess.run(words, env=environment, capture_output=True, check=True).stdout) for _ in range(2)]
    assert hits[0] == 0 and hits[1] > 0


class Decides(nn.Linear):
    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x) if x.sum() > 0 else -super().forward(x)


class Escapes(nn.Linear):
    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x) * float(np.abs(x.numpy()).mean())


class Counts(nn.Linear):
    def __init__(self, *sizes: int):
        super().__init__(*sizes)
        self.register_buffer("calls", torch.zeros(()))

    def forward(self, x: Tensor) -> Tensor:
        self.calls += 1
        return super().forward(x)


class Assigns(Counts):
    def forward(self, x: Tensor) -> Tensor:
        self.calls = self.calls + 1
        return nn.Linear.forward(self, x)


def compiled_step(module: nn.Module, losses: dict | None = None) -> TracedStep:
    """Not run yet: refusals need no compiler."""
    x = torch.randn(8, 3)
    losses = losses or {"a": lambda y, batch: y.square().mean(), "b": lambda y, batch: (y - 1).square().mean()}
    model = hf.wrap(module, ["a", "b"], hidden=4, batching="loop").train()
    return TracedStep(hf.Step(model, hf.supervised((x,), losses=losses), hf.LS()), compiled)


@pytest.mark.parametrize(
    ("module", "reason"),
    [
        (nn.Sequential(nn.Linear(3, 1), nn.Dropout(0.5)), "random numbers"),
        (Decides(3, 1), "traced"),
        (Escapes(3, 1), "traced"),
        (Counts(3, 1), "buffer"),
        (Assigns(3, 1), "buffers"),
    ],
)
def test_a_step_that_a_trace_would_get_wrong_is_refused(module, reason):
    with pytest.raises(NotCompilable, match=reason):
        compiled_step(module)(torch.full((1, 2), 0.5), (torch.randn(8, 3),))


def test_a_number_that_changes_after_the_trace_is_noticed_in_the_next_epoch(monkeypatch):
    monkeypatch.setattr(torch, "compile", lambda graph, **_: graph)  # a trace alone keeps the number, too
    factor = [1.0]
    losses = {"a": lambda y, batch: factor[0] * y.square().mean(), "b": lambda y, batch: (y - 1).square().mean()}
    step, given = compiled_step(nn.Linear(3, 1), losses), (torch.full((1, 2), 0.5), (torch.randn(8, 3),))
    step(*given)
    factor[0] = 2.0
    step(*given)  # once in an epoch is enough
    step.trusted = False
    with pytest.raises(NotCompilable, match="other gradients"):
        step(*given)


def interrupted(folder: Path, first: str, second: str, **changes) -> hf.Run:
    """A run that is stopped under one engine and resumed under another."""
    with pytest.raises(KeyboardInterrupt, match="epoch 2, after step 3"):
        runs.run(folder, epochs=3, engine=first, callbacks=(runs.Signals(signal.SIGINT, 11),), **changes)
    return runs.run(folder, epochs=3, engine=second, resume=True, **changes)


def assert_same_bytes(ours: Path, theirs: Path) -> None:
    for name in ("last.safetensors", "best.safetensors", "front.json"):
        assert (ours / name).read_bytes() == (theirs / name).read_bytes(), name


def test_engines_may_change_in_the_middle_of_an_epoch(tmp_path):
    """The engine is no part of a run's configuration: one may go on where another stopped."""
    whole = runs.run(tmp_path / "whole", epochs=3, engine="eager")
    resumed = interrupted(tmp_path / "cut", "eager", "auto")
    assert [record["step"] for record in resumed.history] == [record["step"] for record in whole.history] == [8, 16, 24]
    assert_same_bytes(tmp_path / "cut", tmp_path / "whole")


class Streams:
    """Stands in for a stream, and for a graph: replaying takes the step that would have been captured."""

    def __init__(self, engine: graph.CudaGraphs | None = None, place: int = 0):
        self.engine, self.place = engine, place

    def wait_stream(self, other: Streams) -> None: ...

    def wait_event(self, event: None) -> None: ...

    def record_event(self) -> None: ...

    def replay(self) -> None:
        with self.engine._rates_on_device():
            self.engine._step(self.place, self)


@pytest.fixture
def graph_on_a_cpu(monkeypatch):
    """Everything of the graph engine but the capture: tables, batches ahead of the step, rates, the tally."""
    pytest.importorskip("triton")
    monkeypatch.setattr(graph, "on_gpu", lambda *tensors: True)
    monkeypatch.setattr(torch.Tensor, "pin_memory", lambda tensor: tensor)
    monkeypatch.setattr(torch.cuda, "current_stream", Streams)
    monkeypatch.setattr(torch.cuda, "stream", lambda stream: contextlib.nullcontext())
    monkeypatch.setattr(torch.cuda, "get_rng_state", lambda device: torch.get_rng_state())
    monkeypatch.setattr(torch.cuda, "set_rng_state", lambda state, device: torch.set_rng_state(state))

    def capture(engine: graph.CudaGraphs) -> list[Streams]:
        stand_ins = [Streams(engine, place) for place in range(2)]
        with engine._as_it_was():  # a step that must leave no trace
            stand_ins[0].replay()
        return stand_ins

    monkeypatch.setattr(graph.CudaGraphs, "_capture", capture)


@pytest.mark.skipif(torch.cuda.is_available(), reason="Triton's interpreter is for machines without a GPU")
@pytest.mark.usefixtures("graph_on_a_cpu")
def test_the_tables_of_a_graph_are_the_eager_steps_and_resume_exactly(tmp_path):
    whole = runs.run(tmp_path / "whole", epochs=3, engine="graph", warmup=4)
    eager = runs.run(tmp_path / "eager", epochs=3, engine="eager", warmup=4)
    torch.testing.assert_close(losses(whole), losses(eager), atol=1e-5, rtol=1e-4)
    for key in ("step", "status", "lr"):
        assert [record[key] for record in whole.history] == [record[key] for record in eager.history]
    torch.testing.assert_close(whole.front.losses, eager.front.losses, atol=1e-5, rtol=1e-4)
    stairs = partial(torch.optim.lr_scheduler.StepLR, step_size=2, gamma=0.5)  # each rate follows from the one before
    for schedule in ("cosine", stairs):
        name = str(schedule)[:6]
        runs.run(tmp_path / f"plain {name}", epochs=3, engine="graph", schedule=schedule)
        interrupted(tmp_path / f"cut {name}", "graph", "graph", schedule=schedule)
        assert_same_bytes(tmp_path / f"cut {name}", tmp_path / f"plain {name}")


# determinism


def state() -> tuple:
    modes = torch.get_deterministic_debug_mode(), torch.backends.cudnn.benchmark
    return *modes, os.environ.get("CUBLAS_WORKSPACE_CONFIG")


class Watches(Callback):
    """Keeps the state inside a run, and may end it by an error."""

    def __init__(self, error: bool = False):
        self.error, self.seen = error, []

    def stepped(self) -> None:
        self.seen.append(state())
        if self.error:
            raise RuntimeError("here")


@pytest.mark.parametrize("workspace", [None, ":16:8"])
@pytest.mark.parametrize("error", [False, True])
def test_determinism_is_switched_on_inside_a_run_and_nowhere_else(tmp_path, monkeypatch, workspace, error):
    monkeypatch.delenv("CUBLAS_WORKSPACE_CONFIG", raising=False)
    if workspace:
        monkeypatch.setenv("CUBLAS_WORKSPACE_CONFIG", workspace)
    torch.backends.cudnn.benchmark = True
    torch.use_deterministic_algorithms(True, warn_only=True)
    try:
        before, watches = state(), Watches(error)
        if error:
            with pytest.raises(RuntimeError, match="here"):
                runs.run(tmp_path / "run", epochs=1, deterministic=True, callbacks=(watches,))
        else:
            runs.run(tmp_path / "run", epochs=1, deterministic=True, callbacks=(watches,))
        assert set(watches.seen) == {(2, False, workspace or ":4096:8")}
        assert state() == before
    finally:
        torch.backends.cudnn.benchmark = False
        torch.use_deterministic_algorithms(False)


def test_determinism_is_off_unless_asked_for_and_part_of_the_configuration(tmp_path):
    watches = Watches()
    run = runs.run(tmp_path / "run", epochs=1, callbacks=(watches,))
    assert set(watches.seen) == {state()} and run.folder.read_config()["deterministic"] is False
    assert run.folder.read_config().get("engine") is None
    with pytest.raises(HyperfrontError, match="deterministic = True"):
        runs.run(tmp_path / "run", epochs=1, deterministic=True, resume=True)
