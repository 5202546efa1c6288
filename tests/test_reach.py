"""What the losses of ``hf.backward`` depend on: a loss that no ray moves is refused; tensors outside get gradients."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

import hyperfront as hf
from hyperfront.errors import HyperfrontError, LossError, TargetError

RAYS = torch.tensor([[0.3, 0.7], [0.8, 0.2]])
X = torch.randn(6, 4, generator=torch.Generator().manual_seed(0))
SOLVERS = {"LS": hf.LS(), "EPO": hf.EPO(), "HVMax": hf.solvers.HVMax()}


class Net(nn.Module):
    """Two layers, and a penalty that each call leaves on the module."""

    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(4, 8), nn.Linear(8, 2)

    def forward(self, x: Tensor) -> Tensor:
        self.penalty = self.a.weight.square().mean()
        return self.b(torch.tanh(self.a(x)))


def two(output: Tensor) -> tuple[Tensor, Tensor]:
    return output.square().mean(), (output - 1).square().mean()


def made(**options) -> tuple[Net, hf.ParetoModel]:
    torch.manual_seed(0)
    net = Net()
    return net, hf.wrap(net, ["first", "second"], hidden=8, **options)


def stale(net: Net) -> Tensor:
    net(X)
    return net.penalty


UNREACHED = {
    "the module that was wrapped": lambda net, network: two(net(X)),
    "it in one loss": lambda net, network: (two(network(X))[0], two(net(X))[1]),
    "what it keeps": lambda net, network: (two(network(X))[0], stale(net)),
    "what it keeps, as a part": lambda net, network: (two(network(X))[0], two(network(X))[1] + stale(net)),
    "detached": lambda net, network: (two(network(X))[0], two(network(X))[1].detach()),
    "detached, with a gradient": lambda net, network: (
        two(network(X))[0],
        two(network(X))[1].detach().requires_grad_(),
    ),
}


@pytest.mark.parametrize("batching", ["loop", "auto"])
@pytest.mark.parametrize("name", UNREACHED)
def test_losses_of_another_network_are_refused_and_change_nothing(name, batching):
    net, model = made(batching=batching)
    for use in (
        lambda losses: hf.backward(model, RAYS, losses, solver=hf.EPO()),
        lambda losses: hf.check(model, X, losses),
    ):
        with pytest.raises(LossError):
            use(lambda network: UNREACHED[name](net, network))
    assert all(p.grad is None for p in [*model.parameters(), *net.parameters()])
    result = hf.backward(model, RAYS, lambda network: two(network(X)), solver=hf.EPO())
    assert result.losses.isfinite().all()


def test_a_loss_without_rows_is_a_constant_zero():
    _, model = made()
    hf.backward(model, RAYS, lambda network: (two(network(X))[0], torch.zeros(())), solver=hf.EPO())
    assert any(p.grad.any() for p in model.parameters())


def gradients_of_plain_copies(model: hf.ParetoModel, losses, weights: Tensor, outside: list[Tensor]) -> list[Tensor]:
    """Of the weighted losses, averaged over the rays, with the weights of each ray in a plain module."""
    total = [torch.zeros_like(tensor) for tensor in outside]
    for ray, weight in zip(RAYS, weights):
        value = (weight * torch.stack(losses(model.at(ray).train()))).sum() / len(RAYS)
        total = [a + b for a, b in zip(total, torch.autograd.grad(value, outside, retain_graph=True))]
    return total


@pytest.mark.parametrize("generate", ["*", "b.*"])
@pytest.mark.parametrize("batching", ["loop", "vmap"])
@pytest.mark.parametrize("name", SOLVERS)
def test_tensors_outside_of_the_model_get_the_gradient_of_the_weighted_losses(name, batching, generate):
    _, model = made(batching=batching, generate=generate)
    encoder, sizes, x = nn.Linear(4, 4), nn.Parameter(torch.tensor([0.1, -0.2])), X.clone().requires_grad_()
    before = encoder(x)  # a part of the graph that the rays share

    def losses(network) -> tuple[Tensor, ...]:
        found = two(network(before) + network(encoder(x)))
        return tuple(loss * s.exp() + 1 for loss, s in zip(found, sizes))

    outside = [*encoder.parameters(), sizes, x]
    for _ in range(2):  # the second call adds to the first one's
        result = hf.backward(model, RAYS, losses, solver=SOLVERS[name])
    expected = gradients_of_plain_copies(model, losses, result.weights, outside)
    for tensor, gradient in zip(outside, expected):
        torch.testing.assert_close(tensor.grad, 2 * gradient, rtol=1e-4, atol=1e-6)


def test_fit_says_that_it_does_not_train_parameters_outside_of_the_model():
    _, model = made()
    size = nn.Parameter(torch.ones(()))
    problem = hf.supervised(
        (X,),
        losses={"first": lambda o, b: two(o)[0] * size, "second": lambda o, b: two(o)[1]},
    )
    with pytest.warns(UserWarning, match=r"outside of the model[\s\S]*does not train"):
        hf.fit(model, problem, epochs=1, batch_size=6, callbacks=[])


def test_negative_losses_in_a_loop_of_one_s_own_name_what_it_has():
    _, model = made()
    with pytest.raises(LossError) as refused:
        hf.backward(model, RAYS, lambda network: (two(network(X))[0] - 9, two(network(X))[1]), solver=hf.EPO())
    assert "first" in refused.value.fix and "supervised" not in refused.value.fix


def test_check_warns_of_losses_of_very_different_sizes():
    _, model = made()
    with pytest.warns(UserWarning, match="very different sizes"):
        hf.check(model, X, lambda network: (two(network(X))[0], 1e6 * two(network(X))[1]))


def test_a_wrapped_hypernetwork_is_refused():
    _, model = made()
    model.hypernet = nn.Sequential(model.hypernet)
    with pytest.raises(TargetError, match="hypernetwork"):
        hf.backward(model, RAYS, lambda network: two(network(X)), solver=hf.EPO())


def test_several_processes_refuse_gradients_that_they_would_not_average(monkeypatch):
    monkeypatch.setattr("hyperfront.training.ranks.world_size", lambda: 2)
    monkeypatch.setattr("hyperfront.training.ranks.check_same", lambda rays: None)
    _, model = made()
    encoder = nn.Linear(4, 4)
    with pytest.raises(HyperfrontError, match="processes"):
        hf.backward(model, RAYS, lambda network: two(network(encoder(X))), solver=hf.EPO())
