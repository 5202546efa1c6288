"""Networks that run side by side on a GPU are those that run one after the other, also beside other load."""

from __future__ import annotations

import functools

import pytest
import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

import hyperfront as hf
from hyperfront.model.stacking import Stacking
from hyperfront.storage.batches import arguments
from hyperfront.storage.nests import map_tensors, tensors
from tests.helpers.architectures import ARCHITECTURES, shaken
from tests.helpers.engines import assert_same, regression, trained
from tests.helpers.gpu import exact_products, load
from tests.helpers.modules import CASES

pytestmark = pytest.mark.gpu
REPEATS = 200


class Sequence(nn.Module):
    """A recurrent layer over the five inputs, as a sequence."""

    def __init__(self, kind: type[nn.RNNBase]):
        super().__init__()
        self.recurrent, self.head = kind(1, 8, batch_first=True), nn.Linear(8, 1)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.recurrent(x[..., None])[0][:, -1])


class Recomputed(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second, self.head = nn.Linear(5, 16), nn.Linear(16, 16), nn.Linear(16, 1)

    def forward(self, x: Tensor) -> Tensor:
        hidden = torch.relu(self.first(x))
        return self.head(checkpoint(lambda h: torch.relu(self.second(h)), hidden, use_reentrant=False))


RECURRENT = {
    f"{kind.__name__} layer": lambda kind=kind: (Sequence(kind), torch.randn(6, 5))
    for kind in (nn.LSTM, nn.GRU, nn.RNN)
}


def gradients(model: hf.ParetoModel, x, solver) -> list[Tensor]:
    args, kwargs = arguments(x)

    def losses(network) -> tuple[Tensor, Tensor]:
        found = [each for each in tensors(network(*args, **kwargs)) if each.is_floating_point()]
        return sum(each.square().mean() for each in found), sum((each - 1).square().mean() for each in found)

    model.zero_grad(set_to_none=True)
    result = hf.backward(model, hf.rays(6, m=2), losses, solver=solver)
    return [result.losses, *(p.grad for p in model.parameters())]


@pytest.mark.parametrize("solver", [hf.LS(), hf.EPO()], ids=["LS", "EPO"])
@pytest.mark.parametrize("name", [*CASES, *RECURRENT])
@pytest.mark.parametrize("architecture", ["mlp", "low_rank", "film"])
def test_beside_other_load_the_networks_are_those_in_turn(name, architecture, solver, monkeypatch):
    torch.manual_seed(0)
    module, x = (CASES | RECURRENT)[name]()
    if architecture == "film" and name in RECURRENT:
        pytest.skip("film needs layers with features to scale")
    model = hf.wrap(module, ["a", "b"], **ARCHITECTURES[architecture])
    shaken(model)
    model.cuda().train()
    x = map_tensors(lambda tensor: tensor.cuda(), x)
    monkeypatch.setattr(Stacking, "wants_vmap", lambda self, theta, running: False)
    with exact_products():
        with monkeypatch.context() as patch:
            patch.setattr(Stacking, "wants_streams", lambda self, theta, running: False)
            expected = gradients(model, x, solver)
        wrong = 0
        with load():
            for _ in range(REPEATS):
                found = gradients(model, x, solver)
                pairs = zip(found, expected, strict=True)
                wrong += not all(
                    torch.allclose(a, b, rtol=1e-3, atol=1e-4 * float(b.abs().max() + 1)) for a, b in pairs
                )
    assert not wrong


@pytest.mark.parametrize("rays", [1, 4])
@pytest.mark.parametrize("hypernet", ["mlp", "low_rank"])
@pytest.mark.parametrize("kind", [nn.LSTM, nn.GRU])
def test_a_graph_trains_what_recurrent_layers_share(kind, hypernet, rays):
    def made() -> tuple[hf.ParetoModel, hf.Problem]:
        _, problem = regression(nn.Linear(5, 1))
        return hf.wrap(Sequence(kind), problem.objectives, hypernet=hypernet), problem

    smooth = functools.partial(torch.optim.Adam, lr=1e-3, eps=1e-3)
    settings = {"solver": hf.LS(), "rays_per_step": rays, "optimizer": smooth}
    ours, theirs = (trained(made, engine, **settings) for engine in ("graph", "eager"))
    assert_same(ours, theirs)
    torch.manual_seed(0)
    start = made()[0].state_dict()
    moved = {name for name, value in ours.model.state_dict().items() if not torch.equal(value.cpu(), start[name])}
    assert {name for name, _ in ours.model.named_parameters()} <= moved


@pytest.mark.parametrize("rays", [1, 4])
@pytest.mark.parametrize("solver", [hf.LS(), hf.EPO()], ids=["LS", "EPO"])
@pytest.mark.parametrize("engine", ["graph", "eager"])
def test_activation_checkpointing_on_a_gpu_takes_the_same_steps(engine, solver, rays, monkeypatch):
    def run() -> hf.Run:
        smooth = functools.partial(torch.optim.Adam, lr=1e-3, eps=1e-3)
        return trained(lambda: regression(Recomputed()), engine, solver=solver, rays_per_step=rays, optimizer=smooth)

    ours = run()
    monkeypatch.setattr(f"{__name__}.checkpoint", lambda function, *args, use_reentrant: function(*args))
    assert_same(ours, run())


@pytest.mark.parametrize("rays", [1, 4])
def test_bfloat16_in_a_graph_takes_the_eager_steps(rays):
    def made() -> tuple[hf.ParetoModel, hf.Problem]:
        return regression(nn.Sequential(nn.Linear(5, 32), nn.ReLU(), nn.Linear(32, 1)))

    settings = {"precision": "bf16", "rays_per_step": rays, "optimizer": functools.partial(torch.optim.SGD, lr=0.01)}
    ours, theirs = (trained(made, engine, **settings) for engine in ("graph", "eager"))
    for mine, other in zip(ours.model.parameters(), theirs.model.parameters(), strict=True):
        torch.testing.assert_close(mine, other, atol=1e-3, rtol=1e-2)
