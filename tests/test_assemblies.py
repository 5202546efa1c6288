"""From theta to tensors: weights, low-rank additions, scales and shifts, each with every kind of module."""

from __future__ import annotations

from functools import partial

import pytest
import torch
from torch import Tensor, nn

import hyperfront as hf
from hyperfront.errors import HyperfrontError, TargetError
from hyperfront.model.assemblies import Film, LowRank
from hyperfront.model.substitution import called
from hyperfront.model.target import Target
from hyperfront.storage.nests import map_tensors, tensors
from hyperfront.training.step import Step
from tests.helpers.architectures import ARCHITECTURES, shaken
from tests.helpers.comparing import assert_close
from tests.helpers.modules import CASES, Adapted, ConvNet, TiedTransformer, TwoInputs, ViT, mlp

RAYS = torch.tensor([[0.5, 0.5], [0.9, 0.1], [0.23, 0.77]])
every_architecture = pytest.mark.parametrize("architecture", ARCHITECTURES)
every_module = pytest.mark.parametrize("name", CASES)


def wrapped(name: str, architecture: str, **options) -> tuple[hf.ParetoModel, object]:
    torch.manual_seed(0)
    module, x = CASES[name]()
    model = hf.wrap(module, ["a", "b"], **ARCHITECTURES[architecture], **options)
    shaken(model)
    model.calibrate([x])
    return model.eval(), x


@every_architecture
@every_module
class TestEveryArchitectureWithEveryModule:
    def test_a_plain_module_predicts_like_the_model_at_its_ray(self, architecture, name):
        model, x = wrapped(name, architecture)
        outputs = model(x, RAYS)
        assert (tensors(outputs)[0][0] - tensors(outputs)[0][1]).abs().max() > 1e-3  # rays differ
        for r, ray in enumerate(RAYS):
            plain = model.at(ray)
            assert_close(called(plain, x), map_tensors(lambda t: t[r], outputs), atol=2e-4, rtol=1e-4)  # noqa: B023
            assert "hyperfront" not in type(plain).__module__

    def test_a_saved_model_comes_back_around_another_module_of_the_same_shapes(self, architecture, name, tmp_path):
        model, x = wrapped(name, architecture)
        model.save(tmp_path / "model.safetensors")
        again = hf.load(tmp_path / "model.safetensors", CASES[name]()[0])
        assert again.document() == model.document()
        assert {k for k, p in again.named_parameters()} == {k for k, p in model.named_parameters()}
        assert all(torch.equal(a, b) for a, b in zip(tensors(model(x, RAYS)), tensors(again(x, RAYS)), strict=True))


@every_architecture
@pytest.mark.parametrize("name", ["mlp", "conv net with BatchNorm", "two inputs, dict output"])
def test_loop_and_vmap_agree_in_values_and_gradients(architecture, name):
    results = []
    for batching in ("loop", "vmap"):
        model, x = wrapped(name, architecture, batching=batching)
        leaf = model.weights(RAYS).detach().requires_grad_()
        output = model.target.map(called, leaf, RAYS, x, split=False)
        wanted = [leaf, *model.target.parameters()]
        loss = sum(t.square().sum() for t in tensors(output))
        results.append([*tensors(output), *torch.autograd.grad(loss, wanted, materialize_grads=True)])
    assert_close(*results, atol=1e-3, rtol=1e-3)


@every_architecture
@pytest.mark.parametrize("solver", [hf.LS(), hf.EPO(), hf.EPO(space="hypernetwork")], ids=str)
@pytest.mark.parametrize("rays", [RAYS, RAYS[:1]], ids=["three rays", "one ray"])
def test_the_gradient_of_a_step_is_that_of_the_weighted_loss(architecture, solver, rays):
    torch.manual_seed(0)
    model = hf.wrap(mlp(), ["small", "large"], **ARCHITECTURES[architecture])
    shaken(model)
    x, y = torch.randn(8, 5), torch.randn(8, 3)

    def losses(network) -> Tensor:
        output = network(x)
        return torch.stack([output.square().mean(), (output - y).abs().mean()])

    weights = hf.backward(model, rays, losses, solver=solver).weights
    found = [p.grad.clone() for p in model.parameters()]
    model.zero_grad()
    total = sum((weights[r] * losses(lambda x: model(x, ray)[0])).sum() for r, ray in enumerate(rays))  # noqa: B023
    (total / len(rays)).backward()
    assert_close(found, [p.grad for p in model.parameters()], atol=1e-6, rtol=1e-4)


@every_architecture
def test_every_architecture_learns_the_trade_off(architecture):
    torch.manual_seed(0)
    model = hf.wrap(mlp(), ["small", "large"], **ARCHITECTURES[architecture])
    x = torch.randn(16, 5)
    problem = hf.supervised(
        (x,),
        losses={
            "small": lambda output, batch: (output + 1).square().mean(),
            "large": lambda output, batch: (output - 1).square().mean(),
        },
    )
    step, optimizer = Step(model, problem, hf.LS(), share_batch=True), torch.optim.Adam(model.parameters(), lr=1e-2)
    corners = torch.tensor([[0.9, 0.1], [0.1, 0.9]])
    for _ in range(150):
        optimizer.zero_grad()
        step(corners, (x,))
        optimizer.step()
    losses = hf.evaluate(model, problem.train, rays=corners).losses
    assert losses[0, 0] < losses[1, 0] - 1 and losses[1, 1] < losses[0, 1] - 1


class TestLowRank:
    @pytest.mark.parametrize("linear", [False, True])
    def test_every_ray_starts_at_the_module_as_it_was_given(self, linear):
        torch.manual_seed(0)
        module, x = CASES["tied Transformer"]()
        model = hf.wrap(module, ["a", "b"], hypernet="low_rank", linear=linear).eval()
        torch.testing.assert_close(model(x, RAYS), module.eval()(x).expand(3, -1, -1, -1), atol=1e-5, rtol=1e-5)

    def test_factors_start_with_the_variance_that_keeps_that_of_the_features(self):
        torch.manual_seed(0)
        model = hf.wrap(nn.Linear(400, 300), ["a", "b"], hypernet="low_rank", rank=8)
        down, up = model.weights(RAYS).detach().split(model.target.sizes, dim=1)
        assert ((400 * down.var(1) - 1).abs() < 0.1).all()
        assert (up == 0).all()

    @pytest.mark.parametrize("name", ["mlp", "conv net with BatchNorm", "tied Transformer"])
    def test_additions_have_the_rank_asked_for(self, name):
        model, _ = wrapped(name, "low_rank, linear")
        model.target.train()
        unpacked = model.target.unpack(model.weights([0.0, 1.0])[0])  # at a corner, one term is left
        for tensor in model.target.assembly.names:
            addition = (unpacked[tensor] - model.target.shared()[tensor]).flatten(1).double()
            singular = torch.linalg.svdvals(addition)
            assert singular[1] > 1e-4 and (singular[2:] < 1e-5).all()

    @pytest.mark.parametrize("name", ["mlp", "conv net with BatchNorm", "LSTM"])
    def test_linear_is_linear_in_the_ray(self, name):
        model, _ = wrapped(name, "low_rank, linear")
        corners = [model.target.unpack(theta) for theta in model.weights(torch.eye(2))]
        mixed = model.target.unpack(model.weights([0.3, 0.7])[0])
        for tensor in model.target.assembly.names:
            torch.testing.assert_close(mixed[tensor], 0.3 * corners[0][tensor] + 0.7 * corners[1][tensor])
        assert any((corners[0][t] - corners[1][t]).abs().max() > 1e-3 for t in model.target.assembly.names)

    def test_the_base_is_trained_or_frozen_and_vectors_are_left_to_the_rest(self):
        roles = {}
        for base in ("train", "freeze"):
            model = hf.wrap(TwoInputs(), ["a", "b"], hypernet="low_rank", rank=2, base=base)
            roles[base] = {spec.name: spec.role for spec in model.target.tensors}
        assert roles["train"]["left.weight"] == roles["train"]["left.bias"] == "trained"
        assert roles["freeze"]["left.weight"] == "frozen" and roles["freeze"]["left.bias"] == "trained"

    def test_a_frozen_module_is_adapted_all_the_same(self):
        model = hf.wrap(mlp().requires_grad_(False), ["a", "b"], hypernet="low_rank", rank=2)
        assert not list(model.target.parameters())
        assert model.target.n == 2 * (5 + 8) + 2 * (8 + 3)

    def test_dimensions_of_one_do_not_count(self):
        assembly = LowRank(ViT(image=8, patch=4, width=8, depth=1, heads=2), ["token", "positions"], rank=3)
        assert assembly.names == ("positions",)
        assert [part.shape for part in assembly.parts] == [(3, 8), (5, 3)]

    @pytest.mark.parametrize(
        ("options", "message"),
        [
            ({"rank": 4}, r"'2\.weight' has no additions of this rank[\s\S]*1 <= rank <= 3"),
            ({"rank": 0}, "no additions of this rank"),
            ({"generate": "*.bias"}, "matches a parameter with two or more dimensions"),
            ({"base": "fixed"}, "one of freeze, train"),
            ({"linear": True, "hidden": 3}, "does not take these options"),
        ],
    )
    def test_what_cannot_be_is_refused_at_construction(self, options, message):
        with pytest.raises(HyperfrontError, match=message):
            hf.wrap(mlp(), ["a", "b"], hypernet="low_rank", **options)


class TestFilm:
    @every_module
    def test_it_starts_as_the_identity(self, name):
        torch.manual_seed(0)
        module, x = CASES[name]()
        model = hf.wrap(module, ["a", "b"], hypernet="film", batchnorm="shared").eval()
        expected = called(module.eval(), x)
        assert_close(model(x, RAYS), map_tensors(lambda t: t.expand(3, *t.shape), expected), atol=1e-5, rtol=1e-4)

    @pytest.mark.parametrize(
        ("layer", "x"),
        [
            (nn.Linear(4, 3), torch.randn(5, 4)),
            (nn.Linear(4, 3, bias=False), torch.randn(5, 4)),
            (nn.Conv2d(4, 6, 3, groups=2), torch.randn(2, 4, 5, 5)),
            (nn.ConvTranspose2d(4, 6, 3), torch.randn(2, 4, 5, 5)),
            (nn.ConvTranspose1d(4, 6, 3, groups=2), torch.randn(2, 4, 5)),
            (nn.LayerNorm((4, 5)), torch.randn(3, 4, 5)),
            (nn.GroupNorm(2, 4), torch.randn(3, 4, 5)),
            (nn.RMSNorm(5), torch.randn(3, 4, 5)),
            (nn.InstanceNorm1d(4, affine=True), torch.randn(3, 4, 5)),
        ],
        ids=lambda value: str(value) if isinstance(value, nn.Module) else "",
    )
    def test_folded_into_the_layer_it_is_scale_and_shift_of_its_output(self, layer, x):
        torch.manual_seed(0)
        shaken(layer, 1.0)
        target = Target(layer, assembly=Film)
        theta = torch.randn(target.n)
        scale, *shift = (
            part.view(p.shape) for p, part in zip(target.assembly.parts, theta.split(target.sizes), strict=True)
        )
        if not isinstance(layer, nn.Linear | nn.LayerNorm | nn.RMSNorm):  # features are the second dimension
            scale, shift = scale[:, None], [s[:, None] for s in shift]
            if x.ndim == 4:
                scale, shift = scale[:, None], [s[:, None] for s in shift]
        expected = scale * layer(x) + sum(shift)
        torch.testing.assert_close(called(target.network(theta), x), expected, atol=1e-5, rtol=1e-4)

    def test_normalization_layers_come_first(self):
        made = hf.wrap(ConvNet(), ["a", "b"], hypernet="film").target.assembly.names
        assert made == ("norm1.weight", "norm1.bias", "norm2.weight", "norm2.bias")
        chosen = hf.wrap(ConvNet(), ["a", "b"], hypernet="film", generate=["conv*", "head*"]).target.assembly.names
        assert chosen == ("conv1.weight", "conv1.bias", "conv2.weight", "conv2.bias", "head.weight", "head.bias")

    def test_tied_weights_are_left_alone(self):
        with pytest.raises(TargetError, match="not tied"):
            hf.wrap(TiedTransformer(), ["a", "b"], hypernet="film", generate="embedding.weight")


def test_a_hypernetwork_of_one_s_own_may_emit_factors():
    assembly = partial(LowRank, rank=2)
    model = hf.wrap(mlp(), ["a", "b"], hypernet=nn.Linear(2, 48), assembly=assembly)
    assert model(torch.randn(4, 5), RAYS).shape == (3, 4, 3)


def test_a_checkpoint_from_before_there_were_assemblies_loads():
    model, x = wrapped("mlp", "mlp")
    document = model.document()
    del document["target"]["assembly"]
    again = hf.model.restore(model.state_dict(), document, mlp())
    assert torch.equal(again(x, RAYS), model(x, RAYS))


def test_adapters_that_a_module_already_carries_can_be_generated_alone():
    torch.manual_seed(0)
    module = nn.Sequential(Adapted(nn.Linear(5, 8)), nn.Tanh(), Adapted(nn.Linear(8, 3)))
    model = hf.wrap(module, ["a", "b"], generate="*lora_*", hidden=8)
    assert model.target.n == 2 * (5 + 8) + 2 * (8 + 3)
    assert {spec.role for spec in model.target.tensors if "base_layer" in spec.name} == {"frozen"}
    plain = model.at([0.3, 0.7])
    torch.testing.assert_close(plain[0].base_layer.weight, module[0].base_layer.weight)
    x = torch.randn(4, 5)
    torch.testing.assert_close(plain(x), model(x, [0.3, 0.7])[0])


@pytest.mark.parametrize(
    ("options", "generated", "fraction"),
    [({"hypernet": "low_rank", "linear": True}, 1_212_104, 1.02), ({"hypernet": "chunked"}, 85_814_036, 0.02)],
    ids=["low_rank", "chunked"],
)
def test_a_target_of_86_million_weights(options, generated, fraction):
    model = hf.wrap(ViT(), ["left", "right"], **options)
    assert model.target.n == generated
    assert sum(p.numel() for p in model.parameters()) < fraction * 86e6
    with torch.no_grad():
        left, right = model.train()(torch.randn(1, 3, 32, 32), [0.4, 0.6])  # four patches
    assert left.shape == right.shape == (1, 1, 10)
    assert left.isfinite().all() and right.isfinite().all()
