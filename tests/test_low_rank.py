"""Options of low-rank additions: orthogonal factors, and a main network that rests at the end of training."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

import hyperfront as hf
from hyperfront.errors import HyperfrontError
from hyperfront.training import Callback

OBJECTIVES = ["left", "right"]
LOSSES = {
    "left": lambda output, batch: (output[:, 0] - batch[0][:, 0]).square().mean(),
    "right": lambda output, batch: (output[:, 0] - batch[0][:, 1]).square().mean(),
}
X = torch.randn(32, 6, generator=torch.Generator().manual_seed(0))


def wrapped(**options) -> hf.ParetoModel:
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 1))
    options = {"hypernet": "low_rank", "generate": "0.*", "rank": 2} | options
    return hf.wrap(net, OBJECTIVES, **options)


def fit(model: hf.ParetoModel, **options) -> hf.Run:
    sgd = lambda parameters: torch.optim.AdamW(parameters, lr=0.05, weight_decay=0.1)  # noqa: E731
    settings = {"epochs": 5, "batch_size": 16, "rays_per_step": 2, "optimizer": sgd, "callbacks": []} | options
    return hf.fit(model, hf.supervised(train=(X,), losses=LOSSES), **settings)


def downs(model: hf.ParetoModel, ray: list[float]) -> tuple[Tensor, Tensor]:
    """The factors ``A`` of the first layer at a ray, and its entries in theta."""
    target, assembly = model.target, model.target.assembly
    theta = model.hypernet(torch.tensor([ray]))[0]
    parts = [part.view(spec.shape) for spec, part in zip(assembly.parts, theta.split(target.sizes))]
    return assembly.down(parts, 0), parts[0]


@pytest.mark.parametrize("options", [{"linear": True}, {}, {"linear": True, "base": "freeze"}], ids=str)
@pytest.mark.parametrize("solver", [hf.LS(), hf.EPO()], ids=lambda solver: type(solver).__name__)
def test_rows_of_all_terms_are_orthonormal_before_and_after_training(options, solver):
    model = wrapped(orthogonal=True, **options)
    plain = wrapped(**options)
    for _ in range(2):
        for ray in ([0.3, 0.7], [1.0, 0.0]):
            rows, own = downs(model, ray)
            torch.testing.assert_close(rows @ rows.T, torch.eye(len(rows)), rtol=0, atol=1e-5)
            torch.testing.assert_close(rows[0], own[0] / own[0].norm())  # the first keeps its direction
        rows, _ = downs(plain, [0.3, 0.7])
        assert (rows @ rows.T - torch.eye(len(rows))).abs().max() > 0.01
        for each in (model, plain):
            fit(each, solver=solver)
    assert "orthogonal" in str(model.summary())
    x = X[:5]
    hf.check(model, x, lambda net: (net(x).square().mean(), (net(x) - 1).square().mean()))
    torch.testing.assert_close(model.eval().at([0.3, 0.7])(x), model(x, [[0.3, 0.7]])[0])


def test_orthogonal_factors_are_in_files_and_adapters(tmp_path):
    model = wrapped(orthogonal=True, linear=True)
    fit(model)
    model.eval().save(tmp_path / "model.safetensors")
    net = nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 1))
    loaded = hf.load(tmp_path / "model.safetensors", target=net)
    torch.testing.assert_close(loaded(X, [[0.3, 0.7]]), model(X, [[0.3, 0.7]]), rtol=0, atol=0)
    peft = pytest.importorskip("peft")
    from hyperfront.export import adapters

    first, second = adapters(model, tmp_path)
    net.load_state_dict(model.at([0.5, 0.5]).state_dict())
    net[0].weight.data = model.target.shared()["0.weight"].detach().clone()
    with_both = peft.PeftModel.from_pretrained(net, first, adapter_name="0")
    with_both.load_adapter(second, adapter_name="1")
    with_both.add_weighted_adapter(["0", "1"], [0.3, 0.7], "ray", combination_type="cat")
    with_both.set_adapter("ray")
    torch.testing.assert_close(with_both.eval()(X), model.at([0.3, 0.7])(X), rtol=1e-5, atol=1e-5)


def test_more_orthogonal_rows_than_inputs_are_refused():
    with pytest.raises(HyperfrontError, match=r"(?s)too few inputs.*2 term\(s\) of rank 4 for 6 inputs"):
        wrapped(orthogonal=True, linear=True, rank=4)
    with pytest.raises(HyperfrontError, match="orthogonal"):
        wrapped(orthogonal="yes")


class Watches(Callback):
    """Keeps the trained parameters of the target, and those of the hypernetwork, after every epoch."""

    def __init__(self, model: hf.ParetoModel):
        self.model, self.seen = model, []

    def epoch_ended(self, record: dict) -> None:
        self.seen.append(
            [p.detach().clone() for p in (*self.model.target.parameters(), *self.model.hypernet.parameters())]
        )


@pytest.mark.parametrize("more", [{}, {"solver": hf.LS()}, {"accumulate": 2}, {"rays_per_step": 1}], ids=str)
def test_the_main_network_rests_after_its_share_of_the_epochs(more):
    model = wrapped()
    watch, count = Watches(model), len([*model.target.parameters()])
    fit(model, freeze_after=0.6, callbacks=[watch], **more)
    for epoch in range(1, 5):
        before, after = watch.seen[epoch - 1], watch.seen[epoch]
        moved = [not torch.equal(*pair) for pair in zip(before, after)]
        assert any(moved[count:]) and (not any(moved[:count]) if epoch >= 3 else all(moved[:count]))


def test_a_resumed_run_rests_in_the_same_epochs(tmp_path):
    class Stops(Callback):
        def epoch_ended(self, record: dict) -> None:
            if record["epoch"] == 3:
                raise KeyboardInterrupt

    whole, stopped = wrapped(), wrapped()
    fit(whole, freeze_after=0.4)
    with pytest.raises(KeyboardInterrupt):
        fit(stopped, freeze_after=0.4, out=tmp_path, callbacks=[Stops()], keep="all")
    again = wrapped()
    fit(again, freeze_after=0.4, out=tmp_path, keep="all", resume=True)
    for ours, theirs in zip(again.parameters(), whole.parameters()):
        assert torch.equal(ours, theirs)


@pytest.mark.parametrize("share", [0.0, 1.0, 0.05, -1, "half", float("nan")])
def test_a_share_without_epochs_before_or_after_it_is_refused(share):
    with pytest.raises(HyperfrontError, match="freeze_after"):
        fit(wrapped(), freeze_after=share)


def test_nothing_to_freeze_and_engines_that_cannot_are_refused():
    with pytest.raises(HyperfrontError, match="nothing to freeze"):
        fit(wrapped(base="freeze", rest="freeze"), freeze_after=0.5)
    with pytest.raises(HyperfrontError, match="one by one"):
        fit(wrapped(), freeze_after=0.5, engine="compiled")
