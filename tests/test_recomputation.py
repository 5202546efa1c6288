"""Activations that are recomputed in the backward pass: the same numbers, with less memory."""

from __future__ import annotations

import copy
import random
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import hyperfront as hf
from hyperfront.errors import HyperfrontError
from hyperfront.solvers import MGDA, HVMax, Solver, Tchebycheff
from hyperfront.training.recomputation import blocks, recomputing
from hyperfront.training.step import Step

X = torch.randn(48, 4, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
LOSSES = {
    "left": lambda output, batch: (output[:, 0] - batch[0][:, 0]).square().mean(),
    "right": lambda output, batch: (output[:, 0] - batch[0][:, 1]).square().mean(),
}
PROBLEM = hf.supervised(train=(X,), losses=LOSSES)


class Block(nn.Module):
    """A residual block that draws random numbers in two ways, normalizes by the batch, and counts its calls."""

    def __init__(self):
        super().__init__()
        self.a, self.norm, self.drop = nn.Linear(4, 8), nn.BatchNorm1d(8), nn.Dropout(0.2)
        self.b = nn.Linear(8, 4)
        self.register_buffer("calls", torch.zeros(()))
        self.register_buffer("mean", torch.zeros(4))
        self.seen = []

    def forward(self, x: Tensor) -> Tensor:
        if self.training:
            self.calls += 1
            self.mean = self.mean.lerp(x.detach().mean(0), 0.1)
            self.seen.append(len(x))
        noise = 1 + 0.1 * random.random() if self.training else 1
        return x + noise * self.b(self.drop(self.norm(self.a(x - self.mean)).tanh())) / (1 + 0.1 * self.calls)


class Plain(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(4, 8), nn.Linear(8, 4)

    def forward(self, x: Tensor) -> Tensor:
        return x + self.b(self.a(x).tanh())


def network(block: type[nn.Module], count: int = 3) -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 4), *(block() for _ in range(count)), nn.Linear(4, 1))


MODULES = {
    "plain": lambda: network(Plain),
    "random, with states": lambda: network(Block),
    "one block": lambda: nn.Sequential(nn.Linear(4, 6), nn.BatchNorm1d(6), nn.Tanh(), nn.Dropout(0.3), nn.Linear(6, 1)),
}
SOLVERS: list[Solver] = [hf.LS(), hf.EPO(), MGDA(), HVMax(), Tchebycheff()]


def fitted(make: Callable[[], nn.Module], recompute: bool, *, options: dict | None = None, **more) -> list[Tensor]:
    """Losses of all epochs and weights after a run, and the buffers of the module."""
    torch.manual_seed(0)
    random.seed(0)
    model = hf.wrap(make(), [*LOSSES], **{"hidden": 6, "batching": "loop"} | (options or {})).double()
    sgd = lambda parameters: torch.optim.SGD(parameters, lr=0.05)  # noqa: E731
    fixed = {"epochs": 2, "batch_size": 24, "rays_per_step": 2, "optimizer": sgd, "callbacks": []} | more
    run = hf.fit(model, PROBLEM, checkpoint_activations=recompute, **fixed)
    assert model.target.around is None
    losses = torch.tensor([[*record["losses"].values()] for record in run.history], dtype=torch.float64)
    return [losses, *model.state_dict().values()]


@pytest.mark.parametrize("name", MODULES)
@pytest.mark.parametrize("solver", SOLVERS, ids=lambda solver: type(solver).__name__)
def test_a_run_ends_at_the_same_numbers(name, solver):
    found, expected = (fitted(MODULES[name], recompute, solver=solver) for recompute in (True, False))
    torch.testing.assert_close(found, expected, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize(
    "options",
    [
        {"options": {"hypernet": "low_rank", "rank": 1, "batching": "auto"}},
        {"options": {"generate": "1.*"}},
        {"options": {"batchnorm": "shared"}},
        {"rays_per_step": 1},
        {"accumulate": 3, "solver": hf.EPO()},
        {"accumulate": 2, "solver": hf.LS()},
    ],
    ids=str,
)
def test_other_ways_of_training_end_at_the_same_numbers(options):
    options = copy.deepcopy(options)
    kind = Plain if "accumulate" in options else Block
    found, expected = (fitted(lambda: network(kind), recompute, **options) for recompute in (True, False))
    torch.testing.assert_close(found, expected, rtol=1e-10, atol=1e-12)


def kept(module: nn.Module, recompute: bool, solver: Solver) -> int:
    """The bytes that the graphs of one step keep at a time for their backward passes, without weights and inputs."""
    torch.manual_seed(0)
    model = hf.wrap(module, [*LOSSES], hidden=6, batching="loop").double()
    step, rays = Step(model, PROBLEM, solver), torch.tensor([[0.3, 0.7], [0.6, 0.4]], dtype=torch.float64)
    live: dict[int, tuple[int, int]] = {}
    most = 0

    class Handle:
        def __init__(self, tensor: Tensor):
            nonlocal most
            storage = tensor.untyped_storage()
            self.tensor, self.key = tensor, storage.data_ptr()
            count, size = live.get(self.key, (0, storage.nbytes()))
            live[self.key] = (count + 1, size)
            most = max(most, sum(size for _, size in live.values()))

        def __del__(self):
            count, size = live.pop(self.key)
            if count > 1:
                live[self.key] = (count - 1, size)

    with torch.autograd.graph.saved_tensors_hooks(Handle, lambda handle: handle.tensor):
        if recompute:
            with recomputing(model.target, model.device):
                step(rays, (X,))
        else:
            step(rays, (X,))
    return most


@pytest.mark.parametrize("solver", [hf.LS(), hf.EPO(), HVMax()], ids=lambda solver: type(solver).__name__)
def test_graphs_keep_fewer_bytes(solver):
    class Wide(nn.Module):
        def __init__(self):
            super().__init__()
            self.layers = nn.Sequential(*(nn.Sequential(nn.Linear(4, 4), nn.Tanh()) for _ in range(4)))
            self.parts = nn.ModuleList(nn.Sequential(*(nn.Tanh() for _ in range(8))) for _ in range(4))

        def forward(self, x: Tensor) -> Tensor:
            x = self.layers(x).repeat(1, 50)
            for part in self.parts:
                x = part(x)
            return x[:, :1]

    assert kept(Wide(), True, solver) < 0.5 * kept(Wide(), False, solver)


def test_blocks_are_the_repeated_children_of_lists():
    net = network(Plain)
    assert blocks(net) == [net[1], net[2], net[3]]
    assert blocks(nn.Sequential(net, nn.Linear(1, 1))) == [net[1], net[2], net[3]]
    encoder = nn.TransformerEncoder(nn.TransformerEncoderLayer(4, 2, 8), 2, enable_nested_tensor=False)
    assert blocks(encoder) == [*encoder.layers]
    assert blocks(flat := nn.Sequential(nn.Linear(4, 4), nn.Tanh(), nn.Linear(4, 4))) == [flat]


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")
def test_what_cannot_be_recomputed_is_refused():
    with pytest.raises(HyperfrontError, match="one ray at a time"):
        fitted(MODULES["plain"], True, options={"batching": "vmap"})
    with pytest.raises(HyperfrontError, match="one by one"):
        fitted(MODULES["plain"], True, engine="compiled")
    with pytest.raises(HyperfrontError, match="checkpoint_activations"):
        fitted(MODULES["plain"], "all")  # pyrefly: ignore[bad-argument-type]
    with pytest.raises(HyperfrontError, match=r"torch\.jit"):
        target: Any = SimpleNamespace(skeleton=torch.jit.script(nn.Linear(4, 1)))
        recomputing(target, torch.device("cpu")).__enter__()
