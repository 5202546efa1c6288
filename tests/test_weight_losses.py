"""Losses that need the weights of the network: penalties, auxiliary losses, sizes."""

from __future__ import annotations

import os
import shutil

import pytest
import torch
from torch import Tensor, nn

import hyperfront as hf
from hyperfront.training.step import Step

RAYS = torch.tensor([[0.3, 0.7], [0.8, 0.2]], dtype=torch.float64)
SOLVERS = [hf.LS(), hf.EPO()]


class WithSize(nn.Module):
    """A network that also returns the L1 and L2 norms of its own weights."""

    def __init__(self, net: nn.Module):
        super().__init__()
        self.net = net

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        weights = [p for p in self.net.parameters() if p.ndim > 1]
        return self.net(x), sum(w.abs().sum() for w in weights), sum(w.square().sum() for w in weights)


class Experts(nn.Module):
    """A mixture of experts that also returns the loss which balances them."""

    def __init__(self):
        super().__init__()
        self.gate, self.experts = nn.Linear(5, 3), nn.ModuleList(nn.Linear(5, 2) for _ in range(3))

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        share = self.gate(x).softmax(-1)
        outputs = torch.stack([expert(x) for expert in self.experts], dim=-1)
        return (outputs * share[:, None]).sum(-1), 3 * share.mean(0).square().sum()


def body() -> nn.Module:
    return nn.Sequential(nn.Linear(5, 6), nn.Tanh(), nn.Linear(6, 2))


def error(output, batch) -> Tensor:
    return (output[0] - batch[1]).square().mean()


CASES = {
    "L1": (lambda: WithSize(body()), lambda output, batch: 0.01 * output[1]),
    "L2": (lambda: WithSize(body()), lambda output, batch: 0.01 * output[2]),
    "balance": (Experts, lambda output, batch: output[1]),
}
"""Module by name, and the loss that it carries in its output."""


def made(name: str, **options) -> tuple[hf.ParetoModel, hf.Problem, tuple]:
    torch.manual_seed(0)
    module, carried = CASES[name]
    model = hf.wrap(module(), ["error", name], hidden=6, **options).double()
    batch = (torch.randn(8, 5).double(), torch.randn(8, 2).double())
    return model, hf.supervised(batch, losses={"error": error, name: carried}), batch


def by_autograd(model: hf.ParetoModel, problem: hf.Problem, batch: tuple, weights: Tensor) -> list[Tensor]:
    """The gradient from plain copies of the module, whose own parameters the generated weights are."""
    model.zero_grad()
    for ray, weight in zip(RAYS, weights, strict=True):
        plain = CASES[problem.objectives[1]][0]().double()
        theta = model.weights(ray[None])[0]
        with torch.no_grad():
            for name, value in model.target.unpack(theta).items():
                plain.get_parameter(name).copy_(value)
        output = plain(problem.inputs(batch))
        losses = [measure(output, batch) for measure in problem.measures.values()]
        (weight @ torch.stack(losses) / len(RAYS)).backward()
        assembled = model.target.unpack(theta)
        own = dict(plain.named_parameters())
        torch.autograd.backward([assembled[name] for name in own], [own[name].grad for name in own])
    return [p.grad for p in model.parameters()]


@pytest.mark.parametrize("solver", SOLVERS, ids=["LS", "EPO"])
@pytest.mark.parametrize("batching", ["loop", "vmap"])
@pytest.mark.parametrize(("hypernet", "generate"), [("mlp", "*"), ("mlp", "*weight"), ("low_rank", "*")])
@pytest.mark.parametrize("name", CASES)
def test_what_an_output_carries_has_the_gradient_of_plain_autograd(name, hypernet, generate, batching, solver):
    model, problem, batch = made(name, hypernet=hypernet, generate=generate, batching=batching)
    result = Step(model, problem, solver, share_batch=True)(RAYS, batch)
    found = [p.grad.clone() for p in model.parameters()]
    for ours, theirs in zip(found, by_autograd(model, problem, batch, result.weights), strict=True):
        torch.testing.assert_close(ours, theirs, atol=1e-9, rtol=1e-9)


@pytest.mark.parametrize("solver", SOLVERS, ids=["LS", "EPO"])
@pytest.mark.parametrize("batching", ["loop", "vmap"])
@pytest.mark.parametrize("hypernet", ["mlp", "low_rank", "film"])
def test_a_network_in_a_loop_of_one_s_own_has_its_parameters(hypernet, batching, solver):
    """The penalty of one that returns no norms is that of one that does; a plain module takes the same function."""
    model, problem, (x, y) = made("L2", hypernet=hypernet, batching=batching)

    def losses(net) -> list[Tensor]:
        size = sum(p.square().sum() for p in net.parameters() if p.ndim > 1)
        return [(net(x)[0] - y).square().mean(), 0.01 * size]

    result = hf.backward(model, RAYS, losses, solver=solver)
    found = [p.grad.clone() for p in model.parameters()]
    model.zero_grad()
    expected = Step(model, problem, solver, share_batch=True)(RAYS, (x, y))
    torch.testing.assert_close(result.losses, expected.losses)
    for ours, theirs in zip(found, model.parameters(), strict=True):
        torch.testing.assert_close(ours, theirs.grad, atol=1e-12, rtol=1e-9)
    with torch.no_grad():
        for ray, row in zip(RAYS, result.losses):
            torch.testing.assert_close(torch.stack(losses(model.at(ray))), row)


def test_the_parameters_of_a_network_are_named_as_the_module_s():
    model, _, _ = made("L2", generate="net.0*")
    network = model.target.network(model.weights(RAYS[:1])[0])
    plain = dict(model.at(RAYS[0]).named_parameters())
    assert dict(network.named_parameters()).keys() == plain.keys()
    for name, tensor in network.named_parameters():
        assert torch.equal(tensor, plain[name])


def test_the_front_holds_the_penalty_of_each_ray_s_own_weights():
    model, problem, _ = made("L2")
    front = hf.evaluate(model, problem.train, rays=RAYS, batch_size=3)  # in several batches, the last of them smaller
    for ray, row in zip(RAYS, front.losses):
        size = sum(p.square().sum() for p in model.at(ray).parameters() if p.ndim > 1)
        torch.testing.assert_close(row[1], 0.01 * size)


@pytest.mark.slow
@pytest.mark.skipif(shutil.which(os.environ.get("CXX", "g++")) is None, reason="torch.compile needs a C++ compiler")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of what torch.compile imports
@pytest.mark.parametrize("name", ["L2", "balance"])
def test_compiled_steps_are_the_eager_ones(name):
    torch._dynamo.utils.counters.clear()
    found = []
    for engine in ("eager", "compiled"):
        model, problem, _ = made(name)
        run = hf.fit(
            model.float(),
            hf.supervised(tuple(t.float() for t in problem.train.source.data), losses=problem.measures),
            epochs=3,
            batch_size=8,
            rays_per_step=2,
            engine=engine,
            callbacks=[],
        )
        found.append(torch.tensor([list(record["losses"].values()) for record in run.history]))
    assert torch._dynamo.utils.counters["stats"]["unique_graphs"]
    torch.testing.assert_close(*found, atol=1e-6, rtol=1e-5)


@pytest.mark.gpu
@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("rays", [1, 2])
def test_a_graph_takes_the_eager_steps(name, rays):
    found = []
    for engine in ("eager", "graph"):
        model, problem, _ = made(name)
        run = hf.fit(
            model.float().cuda(),
            hf.supervised(tuple(t.float() for t in problem.train.source.data), losses=problem.measures),
            epochs=20,
            batch_size=8,
            rays_per_step=rays,
            engine=engine,
            callbacks=[],
        )
        found.append(torch.tensor([list(record["losses"].values()) for record in run.history]))
    assert (found[0][-1] < found[0][0]).any()
    torch.testing.assert_close(*found, atol=1e-5, rtol=1e-4)
