"""Generated tensors stand in for a module's own for as long as it needs them, and nowhere else."""

from __future__ import annotations

import copy
import gc
import pickle
import sys
import weakref
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import pytest
import torch
from torch import Tensor, nn
from torch.nn.utils import parametrize
from torch.utils.checkpoint import checkpoint

import hyperfront as hf
from hyperfront.errors import HyperfrontError, TargetError
from hyperfront.solvers import HVMax, NormalizeByStart, Solver, chain
from tests.helpers.waiting import LIMIT

RAYS = torch.tensor([[0.2, 0.8], [0.5, 0.5], [0.9, 0.1]], dtype=torch.float64)
X = torch.randn(12, 4, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
SOLVERS = {
    "LS": hf.LS(),
    "EPO": hf.EPO(),
    "HVMax": HVMax(),
    "chain": chain(NormalizeByStart(), hf.EPO()),
}


class Checkpointed(nn.Module):
    """An MLP whose hidden layers are computed again in the backward pass."""

    def __init__(self, recompute: bool = True, reentrant: bool = False):
        super().__init__()
        self.first, self.second, self.head = nn.Linear(4, 8), nn.Linear(8, 8), nn.Linear(8, 1)
        self.recompute, self.reentrant = recompute, reentrant

    def forward(self, x: Tensor) -> Tensor:
        hidden = torch.tanh(self.first(x))
        hidden = checkpoint(self.part, hidden, use_reentrant=self.reentrant) if self.recompute else self.part(hidden)
        return self.head(hidden)[:, 0]

    def part(self, hidden: Tensor) -> Tensor:
        return torch.tanh(self.second(hidden))


def losses(network) -> tuple[Tensor, Tensor]:
    output = network(X)
    return (output - X[:, 0]).square().mean(), (output - X[:, 1]).square().mean()


def gradients(module: nn.Module, solver: Solver, **options) -> list[Tensor]:
    torch.manual_seed(0)
    model = hf.wrap(module, ["left", "right"], hidden=6, **options).double()
    hf.backward(model, RAYS, losses, solver=copy.deepcopy(solver))
    return [p.grad for p in model.parameters()]


@pytest.mark.parametrize("generate", ["*", "second.*"], ids=["all", "with trained ones"])
@pytest.mark.parametrize("batching", ["auto", "loop"])
@pytest.mark.parametrize("solver", SOLVERS)
def test_recomputed_activations_see_the_weights_of_their_ray(solver, batching, generate):
    torch.manual_seed(0)
    module = Checkpointed()
    plain = copy.deepcopy(module)
    plain.recompute = False
    options = {"batching": batching, "generate": generate}
    recomputed, stored = (gradients(each, SOLVERS[solver], **options) for each in (module, plain))
    for ours, theirs in zip(recomputed, stored, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-9, atol=1e-12)
    assert any(gradient.abs().max() > 0 for gradient in recomputed)


def test_a_run_with_recomputation_ends_at_the_same_weights():
    y = torch.randn(40, 1)
    problem = hf.supervised(
        train=(torch.randn(40, 4), y),
        losses={"left": lambda o, b: (o - b[1][:, 0]).square().mean(), "right": lambda o, b: (o + 1).square().mean()},
    )
    ends = []
    for recompute in (True, False):
        torch.manual_seed(0)
        model = hf.wrap(Checkpointed(recompute), problem.objectives, hidden=6)
        hf.fit(model, problem, epochs=3, batch_size=20, rays_per_step=2, callbacks=[])
        ends.append(torch.cat([p.detach().flatten() for p in model.parameters()]))
    torch.testing.assert_close(*ends)


def test_a_backward_pass_outside_of_ours_is_an_error_not_a_wrong_gradient():
    model = hf.wrap(Checkpointed(), ["left", "right"], hidden=6).double()
    output = model(X, RAYS)
    with pytest.raises(TargetError, match="outside of its network"):
        output.sum().backward()


def test_reentrant_checkpointing_says_what_to_do():
    model = hf.wrap(Checkpointed(reentrant=True), ["left", "right"], hidden=6).double()
    with pytest.raises(HyperfrontError, match="use_reentrant=False"):
        hf.backward(model, RAYS, losses, solver=hf.EPO())


@pytest.mark.parametrize("solver", [hf.LS(), hf.EPO()], ids=["LS", "EPO"])
def test_rays_in_turn_keep_the_activations_of_one(solver):
    alive: list[weakref.ref] = []
    most = []

    class Watched(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.Linear(4, 1)

        def forward(self, x: Tensor) -> Tensor:
            most.append(sum(each() is not None for each in alive))
            hidden = self.layer(x)[:, 0]
            alive.append(weakref.ref(hidden))
            return hidden.square()  # which keeps its input for the backward pass

    model = hf.wrap(Watched(), ["left", "right"], hidden=6, batching="loop").double()
    gc.collect()
    hf.backward(model, RAYS, losses, solver=solver)
    assert most == [0, 0, 0]


class Assigns(nn.Module):
    """Keeps the mean of its inputs in a buffer that every call assigns."""

    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 1)
        self.register_buffer("mean", torch.zeros(4))
        self.register_buffer("cache", None, persistent=False)

    def forward(self, x: Tensor) -> Tensor:
        self.mean = 0.5 * self.mean + 0.5 * x.mean(0)
        self.cache = self.layer(x)
        return self.cache[:, 0] + self.mean.sum()


@pytest.mark.parametrize("batching", ["auto", "loop"])
def test_each_ray_updates_an_assigned_buffer_in_turn(batching):
    model = hf.wrap(Assigns(), ["left", "right"], hidden=6, batching=batching).double()
    hf.backward(model, RAYS, losses, solver=hf.LS())
    expected = X.mean(0) * (1 - 0.5**3)
    torch.testing.assert_close(model.at([0.5, 0.5]).mean, expected)
    torch.testing.assert_close(model.state_dict()["target.tensor:mean"], expected)
    assert model.at([0.5, 0.5]).cache is None


def test_a_buffer_that_appears_in_a_call_is_refused():
    module = Assigns()
    module.register_buffer("cache", None)  # files would have to hold it
    model = hf.wrap(module, ["left", "right"], hidden=6).double()
    with pytest.raises(TargetError, match="cache"):
        model(X, RAYS)


class Listed(nn.Module):
    """Reaches its weights through a list and an attribute of its own."""

    def __init__(self, registered: bool = True):
        super().__init__()
        self.layer = nn.Linear(4, 1)
        weights = [self.layer.weight] if registered else [nn.Parameter(torch.randn(1, 4))]
        self.weights = {"first": weights}

    def forward(self, x: Tensor) -> Tensor:
        return nn.functional.linear(x, self.weights["first"][0], self.layer.bias)[:, 0]


def test_references_to_a_parameter_see_the_generated_one(tmp_path):
    model = hf.wrap(Listed(), ["left", "right"], hidden=6).double()
    expected = model(X, [0.3, 0.7])[0]
    weight = model.target.unpack(model.weights([0.3, 0.7])[0])["layer.weight"]
    torch.testing.assert_close(
        expected, X @ weight[0] + model.target.unpack(model.weights([0.3, 0.7])[0])["layer.bias"]
    )
    torch.testing.assert_close(model.at([0.3, 0.7])(X), expected)
    model.save(tmp_path / "model.safetensors")
    loaded = hf.load(tmp_path / "model.safetensors", target=Listed().double())
    torch.testing.assert_close(loaded(X, [0.3, 0.7])[0], expected)


class Hidden(nn.Module):
    """Has a layer in a plain list."""

    def __init__(self):
        super().__init__()
        self.layer, self.others = nn.Linear(4, 1), [nn.Linear(1, 1)]


class Fixed(nn.Module):
    """Refers to its weight from a tuple."""

    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 1)
        self.weights = (self.layer.weight,)


class Closure(nn.Module):
    """Calls its layer through a function that the constructor makes."""

    def __init__(self):
        super().__init__()
        self.layer = layer = nn.Linear(4, 1)
        self.apply = lambda x: layer(x)

    def forward(self, x: Tensor) -> Tensor:
        return self.apply(x)[:, 0]


SPECTRAL = [torch.nn.utils.spectral_norm, torch.nn.utils.parametrizations.spectral_norm]


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (partial(Listed, registered=False), "not registered"),
        (Hidden, "others"),
        (Fixed, "tuple"),
        (Closure, "holds a Linear"),
        (lambda: nn.Sequential(nn.Embedding(5, 3, max_norm=1.0)), "max_norm"),
        *((lambda norm=norm: nn.Sequential(norm(nn.Linear(4, 3))), "spectral_norm") for norm in SPECTRAL),
    ],
    ids=[
        "parameter in a list",
        "layer in a list",
        "tuple",
        "closure",
        "max_norm",
        "spectral_norm, old",
        "spectral_norm, new",
    ],
)
@pytest.mark.filterwarnings("ignore:.*spectral_norm.*:FutureWarning")
def test_modules_that_would_be_silently_wrong_are_refused(make, words):
    with pytest.raises(TargetError, match=words):
        hf.wrap(make(), ["left", "right"])


@pytest.mark.parametrize("norm", SPECTRAL)
@pytest.mark.filterwarnings("ignore:.*spectral_norm.*:FutureWarning")
def test_spectral_norm_of_shared_layers_is_kept(norm):
    torch.manual_seed(0)
    model = hf.wrap(nn.Sequential(norm(nn.Linear(4, 3)), nn.Linear(3, 1)), ["left", "right"], generate="1.*", hidden=6)
    model.double()
    for _ in range(100):
        model.train()(X, RAYS)
    plain = model.at([0.5, 0.5])
    with torch.no_grad():
        plain(X)  # the older form computes its weight in a call
        assert torch.linalg.matrix_norm(plain[0].weight, 2).item() == pytest.approx(1, rel=1e-6)
        torch.testing.assert_close(plain(X), model.eval()(X, [0.5, 0.5])[0])


class TwoArguments(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 1)

    def forward(self, x: Tensor, y: Tensor, *, scale: float = 1.0) -> Tensor:
        return scale * self.layer(x + y)[:, 0]


def test_the_network_in_a_loss_is_called_like_the_module():
    model = hf.wrap(TwoArguments(), ["left", "right"], hidden=6).double()
    found = []

    def own(network) -> tuple[Tensor, Tensor]:
        found.append((network(X, X), network(X, y=X, scale=2.0), network(x=X, y=X)))
        return found[-1][0].square().mean(), found[-1][1].square().mean()

    hf.backward(model, [0.3, 0.7], own, solver=hf.EPO())
    one, two, three = found[0]
    torch.testing.assert_close(two, 2 * one)
    torch.testing.assert_close(three, one)


def test_a_loss_that_takes_the_network_for_an_output_is_told_to_call_it():
    model = hf.wrap(nn.Linear(4, 2), ["left", "right"])
    with pytest.raises(AttributeError, match="call it"):
        hf.backward(model, [[0.5, 0.5]], lambda output: [output.mean(), output.mean()], solver=hf.LS())


def test_a_model_between_calls_can_be_copied_and_pickled():
    model = hf.wrap(nn.Sequential(nn.Linear(4, 3), nn.Tanh(), nn.Linear(3, 1)), ["left", "right"], hidden=6).double()
    expected = model(X, RAYS)
    for other in (copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
        torch.testing.assert_close(other(X, RAYS), expected)
        torch.testing.assert_close(other.at(RAYS[0])(X), expected[0])


class Slow(nn.Module):
    """Takes a while, so that calls of several threads would overlap."""

    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(4, 8), nn.Linear(8, 2)

    def forward(self, x: Tensor) -> Tensor:
        hidden = torch.tanh(self.a(x))
        for _ in range(20):
            hidden = hidden + 0 * torch.relu(hidden @ hidden.mT @ hidden)
        return self.b(hidden)


def test_threads_that_share_a_model_take_turns():
    torch.manual_seed(0)
    model, x, rays = hf.wrap(Slow(), ["a", "b"], hidden=8).eval(), torch.randn(6, 4), hf.rays(4, m=2)
    with torch.no_grad():
        expected = [model(x, ray[None]) for ray in rays]
    own = lambda network: (network(x).square().mean(), (network(x) - 1).square().mean())  # noqa: E731

    def work(k: int) -> bool:
        if k % 4 == 3:
            return bool(hf.backward(model, rays[:1], own, solver=hf.LS()).losses.isfinite().all())
        with torch.no_grad():
            plain = model.at(rays[k % 4])(x)
            return torch.equal(model(x, rays[k % 4][None]), expected[k % 4]) and torch.equal(plain, expected[k % 4][0])

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        with ThreadPoolExecutor(4) as pool:
            assert all(pool.map(work, range(200)))
    finally:
        sys.setswitchinterval(interval)


def test_a_kept_network_may_be_called_by_another_thread():
    """A GPU's backward pass recomputes activations in a thread of PyTorch's, while the step waits for it."""
    target = hf.wrap(nn.Linear(4, 2), ["a", "b"], hidden=8).target
    network, x = target.network(torch.randn(target.n)), torch.randn(3, 4)
    with network.kept(), ThreadPoolExecutor(1) as pool:
        assert pool.submit(network, x).result(timeout=LIMIT).shape == (3, 2)


class Symmetric(nn.Module):
    def forward(self, weight: Tensor) -> Tensor:
        return weight.triu() + weight.triu(1).mT


def test_a_cache_of_parametrizations_around_calls_is_refused_and_inside_of_a_call_works():
    class Twice(nn.Module):
        def __init__(self):
            super().__init__()
            self.f = parametrize.register_parametrization(nn.Linear(4, 4), "weight", Symmetric())

        def forward(self, x: Tensor) -> Tensor:
            with parametrize.cached():
                return self.f(self.f(x))

    torch.manual_seed(0)
    wrapped, x, rays = hf.wrap(Twice(), ["a", "b"], hidden=8, batching="loop"), torch.randn(3, 4), hf.rays(3, m=2)
    for ray, output in zip(rays, wrapped(x, rays)):
        torch.testing.assert_close(output, wrapped.at(ray)(x))
    with parametrize.cached(), pytest.raises(TargetError, match="cached"):
        wrapped(x, rays)
    plain = hf.wrap(nn.Linear(4, 4), ["a", "b"], hidden=8)
    with parametrize.cached():
        plain(x, rays)


def test_a_module_that_merges_weights_when_its_mode_changes_is_told_so():
    class Merging(nn.Linear):
        def train(self, mode: bool = True) -> Merging:
            self.weight.data += self.bias[:, None]
            return super().train(mode)

    with pytest.raises(TargetError, match=r"train\(\)"):
        hf.wrap(Merging(4, 2), ["a", "b"]).eval()
