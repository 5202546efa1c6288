"""Any nn.Module as a function of generated weights."""

from __future__ import annotations

import pickle

import pytest
import torch
from torch import nn
from torch.func import functional_call

import hyperfront as hf
from hyperfront.errors import TargetError
from hyperfront.model.assemblies import Replace
from hyperfront.model.substitution import called
from hyperfront.storage.batches import row_range
from hyperfront.storage.nests import map_tensors, tensors
from tests.helpers.comparing import assert_close
from tests.helpers.modules import CASES, ConvNet, TiedTransformer, TwoInputs, mlp

RAYS = torch.tensor([[0.5, 0.5], [0.9, 0.1], [0.23, 0.77]])


def wrapped(name: str, **options) -> tuple[hf.ParetoModel, object]:
    torch.manual_seed(0)
    module, x = CASES[name]()
    model = hf.wrap(module, ["a", "b"], hidden=16, **options)
    model.calibrate([x])
    return model.eval(), x


@pytest.mark.parametrize("name", CASES)
def test_a_plain_module_predicts_like_the_model_at_its_ray(name):
    model, x = wrapped(name)
    outputs = model(x, RAYS)
    for r, ray in enumerate(RAYS):
        plain = model.at(ray)
        assert_close(called(plain, x), map_tensors(lambda t: t[r], outputs), atol=1e-5, rtol=1e-4)  # noqa: B023
        assert "hyperfront" not in type(plain).__module__
        assert b"hyperfront" not in pickle.dumps(plain.state_dict())


@pytest.mark.parametrize("name", CASES)
def test_rays_give_different_networks(name):
    model, x = wrapped(name)
    first = tensors(model(x, RAYS))[0]
    assert (first[0] - first[1]).abs().max() > 1e-4


@pytest.mark.parametrize("name", ["mlp", "conv net with BatchNorm", "two inputs, dict output"])
@pytest.mark.parametrize("training", [True, False])
def test_loop_and_vmap_agree_in_values_and_gradients(name, training):
    results = {}
    for batching in ("loop", "vmap", "auto"):
        model, x = wrapped(name, batching=batching)
        model.train(training)
        theta = model.weights(RAYS).detach().requires_grad_()
        output = model.target.map(called, theta, RAYS, x, split=False)
        (gradient,) = torch.autograd.grad(sum(t.square().sum() for t in tensors(output)), theta)
        results[batching] = (tensors(output)[0].detach(), gradient)
    for batching in ("vmap", "auto"):
        assert_close(results["loop"], results[batching], atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("name", CASES)
def test_one_ray_per_row_is_each_row_at_its_own_ray(name):
    model, x = wrapped(name)
    rays = hf.rays(6, m=2)
    together = model(x, rays, paired=True)
    for row in range(6):
        alone = model(row_range(x, row, row + 1), rays[row])
        assert_close(
            map_tensors(lambda t: t[row], together),  # noqa: B023
            map_tensors(lambda t: t[0, 0], alone),
            atol=1e-5,
            rtol=1e-4,
        )


@pytest.mark.parametrize("name", CASES)
def test_predictions_do_not_depend_on_the_batch_they_come_in(name):
    model, x = wrapped(name)
    whole = model(x, RAYS)
    part = model(row_range(x, 2, 4), RAYS)
    assert_close(map_tensors(lambda t: t[:, 2:4], whole), part, atol=1e-5, rtol=1e-4)


def test_unpacked_weights_have_the_module_s_shapes_and_give_its_output():
    torch.manual_seed(0)
    module = mlp()
    model = hf.wrap(module, ["a", "b"])
    start = model.target.start()
    x = torch.randn(4, 5)
    torch.testing.assert_close(functional_call(module, model.target.unpack(start), (x,)), module(x))


def test_tied_weights_stay_tied():
    model, _ = wrapped("tied Transformer")
    assert "decoder.weight" not in [spec.name for spec in model.target.tensors]
    plain = model.at([0.3, 0.7])
    assert plain.decoder.weight is plain.embedding.weight
    torch.testing.assert_close(plain.embedding.weight.flatten(), model.weights([0.3, 0.7])[0, :88])


def test_the_user_s_module_is_left_alone():
    module = ConvNet()
    before = {name: value.clone() for name, value in module.state_dict().items()}
    model = hf.wrap(module, ["a", "b"])
    model.train()
    model(torch.randn(4, 1, 9, 9), RAYS)
    model.calibrate([torch.randn(4, 1, 9, 9)])
    model.at(RAYS[0]) if model.eval() else None
    assert_close(before, module.state_dict())
    assert all(layer.track_running_stats for layer in (module.norm1, module.norm2))


def test_patterns_and_predicates_choose_what_is_generated():
    by_pattern = hf.wrap(TwoInputs(), ["a", "b"], generate="left.*")
    by_list = hf.wrap(TwoInputs(), ["a", "b"], generate=["left.weight", "left.bias"])
    by_rule = hf.wrap(TwoInputs(), ["a", "b"], generate=lambda name, p: p.shape[-1] == 3 or name == "left.bias")
    for model in (by_pattern, by_list, by_rule):
        assert {spec.name: spec.role for spec in model.target.tensors} == {
            "left.weight": "generated",
            "left.bias": "generated",
            "right.weight": "trained",
            "right.bias": "trained",
            "offset": "buffer",
        }
        assert model.target.n == 16
    frozen = hf.wrap(TwoInputs(), ["a", "b"], generate="left.*", rest="freeze")
    assert not list(frozen.target.parameters())


def test_parameters_without_gradient_are_frozen():
    module = mlp()
    module[0].requires_grad_(False)
    model = hf.wrap(module, ["a", "b"])
    assert {spec.role for spec in model.target.tensors if spec.name.startswith("0.")} == {"frozen"}
    torch.testing.assert_close(model.at([0.5, 0.5])[0].weight, module[0].weight)


def test_the_model_moves_and_counts_only_what_it_trains():
    model = hf.wrap(TwoInputs(), ["a", "b"], generate="left.*", hidden=4)
    expected = sum(p.numel() for p in model.hypernet.parameters()) + 2 * 4 + 4
    assert sum(p.numel() for p in model.parameters()) == expected
    assert "16 weights in 2 tensor(s)" in model.summary()


class TestBatchNorm:
    def test_one_batch_is_one_batch_and_a_loader_s_pairs_are_refused(self):
        model, x = hf.wrap(nn.BatchNorm1d(3), ["a", "b"], hidden=4), torch.randn(8, 3)
        model.calibrate(x)
        found = model.target.statistics.clone()
        model.calibrate([x])
        assert torch.equal(model.target.statistics, found)
        with pytest.raises(hf.HyperfrontError, match="x for x, "):
            model.calibrate([[x, x]])

    def test_a_batch_of_two_arguments_is_not_taken_for_two_batches(self):
        class Sum(nn.Module):
            def __init__(self):
                super().__init__()
                self.norm = nn.BatchNorm1d(3)

            def forward(self, a, b):
                return self.norm(a) + b

        model, x = hf.wrap(Sum(), ["a", "b"], hidden=4), torch.randn(8, 3)
        with pytest.raises(hf.HyperfrontError, match=r"calibrate\(\[\(a, b\)\]\)"):
            model.calibrate((x, x))
        model.calibrate([(x, x)])
        assert model.eval()((x, x), [[0.5, 0.5]]).shape == (1, 8, 3)

    def test_calibrated_statistics_are_those_of_the_batch_at_a_grid_ray(self):
        model, x = wrapped("conv net with BatchNorm")
        ray = torch.tensor([[0.25, 0.75]])  # a point of the grid with 16 partitions
        model.train()
        by_batch = model(x, ray)
        model.eval()
        # the batch itself was the calibration data; BatchNorm normalizes by the biased variance, running ones are not
        count = 6 * 7 * 7
        torch.testing.assert_close(model(x, ray), by_batch, atol=3 / count, rtol=0.05)

    def test_calibration_on_batches_is_that_of_all_rows_also_far_from_zero(self):
        rows = 1000 + torch.randn(40, 3, 5)
        model = hf.wrap(nn.Sequential(nn.BatchNorm1d(3), nn.Flatten(), nn.Linear(15, 2)), ["a", "b"])
        model.calibrate(rows.split(9))  # 9, 9, 9, 9 and 4
        found = model.at([0.25, 0.75])[0]
        columns = rows.double().movedim(1, -1).reshape(-1, 3)
        torch.testing.assert_close(found.running_mean.double(), columns.mean(0), atol=1e-3, rtol=0)
        torch.testing.assert_close(found.running_var.double(), columns.var(0), atol=0, rtol=1e-4)

    def test_batch_mode_depends_on_the_batch_and_shared_mode_on_running_averages(self):
        batch, x = wrapped("conv net with BatchNorm", batchnorm="batch")
        assert (batch(x, RAYS)[:, :2] - batch(x[:2], RAYS)).abs().max() > 1e-3
        shared, _ = wrapped("conv net with BatchNorm", batchnorm="shared")
        before = shared.state_dict()["target.tensor:norm1/running_mean"].clone()
        shared.train()
        shared(x, RAYS)
        shared.eval()
        assert (shared.state_dict()["target.tensor:norm1/running_mean"] - before).abs().max() > 1e-4
        torch.testing.assert_close(shared(x, RAYS)[:, :2], shared(x[:2], RAYS))

    def test_evaluation_before_calibration_is_an_error_with_the_fix(self):
        model = hf.wrap(ConvNet(), ["a", "b"]).eval()
        with pytest.raises(TargetError, match="calibrate"):
            model(torch.randn(2, 1, 9, 9), RAYS)


def test_a_module_that_vmap_cannot_batch_falls_back_to_the_loop():
    class Branches(nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = nn.Linear(2, 1)

        def forward(self, x):
            return self.linear(x) if bool(self.linear.weight.sum() > 100) else -self.linear(x)

    torch.manual_seed(0)
    auto = hf.wrap(Branches(), ["a", "b"])
    loop = hf.wrap(Branches(), ["a", "b"], batching="loop")
    loop.load_state_dict(auto.state_dict())
    x = torch.randn(3, 2)
    torch.testing.assert_close(auto(x, RAYS), loop(x, RAYS))


def test_an_error_of_the_module_itself_is_shown_as_it_is():
    model = hf.wrap(mlp(), ["a", "b"])
    with pytest.raises(RuntimeError, match="shapes cannot be multiplied"):
        model(torch.randn(3, 4), RAYS)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: hf.wrap(nn.ReLU(), ["a", "b"]), "no parameters"),
        (lambda: hf.wrap(mlp(), ["a", "b"], generate="head.*"), "no parameter of the target is generated"),
        (lambda: hf.wrap(mlp().requires_grad_(False), ["a", "b"]), "no parameter that requires a gradient"),
        (lambda: hf.wrap(nn.LazyLinear(2), ["a", "b"]), "uninitialized"),
        (lambda: hf.wrap(mlp(), ["a"]), "at least two objectives"),
        (lambda: hf.wrap(mlp(), "a"), "at least two objectives"),
        (lambda: hf.wrap(mlp(), torch.tensor(1.0)), "at least two objectives"),
        (lambda: hf.wrap(mlp(), range(10**12)), "at least two objectives"),
        (lambda: hf.wrap(mlp(), ["a", "a"]), "different names"),
        (lambda: hf.wrap(mlp(), ["a", "b"], hypernet="mpl"), "did you mean 'mlp'"),
        (lambda: hf.wrap(mlp(), ["a", "b"], hiden=3), "hiden"),
        (lambda: hf.wrap(mlp(), ["a", "b"], hypernet=nn.Linear(2, 7)), r"theta \[R, 75\]"),
        (lambda: hf.wrap(mlp(), ["a", "b"], batching="all"), "one of auto, loop, vmap"),
    ],
)
def test_what_cannot_be_wrapped_is_refused_with_a_reason(make, message):
    with pytest.raises(hf.HyperfrontError, match=message):
        make()


def test_a_hypernetwork_of_one_s_own_can_be_used():
    model = hf.wrap(mlp(), ["a", "b"], hypernet=nn.Linear(2, 75))
    assert model(torch.randn(4, 5), RAYS).shape == (3, 4, 3)


def test_rays_are_checked_by_the_model():
    model = hf.wrap(TiedTransformer(), ["left", "right"])
    with pytest.raises(hf.HyperfrontError, match=r"right = -0\.2"):
        model.weights([1.2, -0.2])
    with pytest.raises(hf.HyperfrontError, match="one ray"):
        model.at(RAYS)


class TestSharing:
    """One layer used under two names, one tensor in two places."""

    class Twice(nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.norm = nn.Linear(4, 4), nn.BatchNorm1d(4)
            self.b = nn.Sequential(self.a, self.norm)
            self.scale = nn.Parameter(torch.ones(4))
            self.same_scale = self.scale

        def forward(self, x):
            return self.b(torch.tanh(self.norm(self.a(x)) * self.scale)) * self.same_scale

    @pytest.mark.parametrize("batching", ["loop", "vmap"])
    def test_shared_layers_stay_shared_and_the_private_copy_whole(self, batching):
        torch.manual_seed(0)
        model = hf.wrap(self.Twice(), ["a", "b"], batching=batching)
        x = torch.randn(6, 4)
        model.train()(x, RAYS).sum().backward()
        model.calibrate([x])
        output = model.eval()(x, RAYS)
        plain = model.at(RAYS[1])
        assert plain.b[0] is plain.a
        assert plain.same_scale is plain.scale
        torch.testing.assert_close(plain(x), output[1], atol=1e-5, rtol=1e-4)


def test_outputs_that_cannot_be_stacked_are_refused_rather_than_cut_to_the_first_ray():
    class Result:
        def __init__(self, value):
            self.value = value

    class Odd(nn.Linear):
        def forward(self, x):
            return Result(super().forward(x))

    with pytest.raises(TargetError, match="Result"):
        hf.wrap(Odd(3, 1), ["a", "b"])(torch.randn(2, 3), RAYS)


@pytest.mark.parametrize("name", ["mlp", "conv net with BatchNorm", "two inputs, dict output"])
def test_a_change_of_precision_is_followed(name):
    model, x = wrapped(name)
    single = model(x, RAYS)
    wide = map_tensors(lambda t: t.double(), x)
    assert_close(model.double()(wide, RAYS), map_tensors(lambda t: t.double(), single), atol=1e-4, rtol=1e-3)
    plain = model.at(RAYS[0])
    assert {p.dtype for p in plain.parameters()} == {torch.float64}


def test_calibrated_statistics_travel_in_a_state_dict():
    first, x = wrapped("conv net with BatchNorm")
    second = hf.wrap(ConvNet(), ["a", "b"], hidden=16).eval()
    second.load_state_dict(first.state_dict())
    torch.testing.assert_close(second(x, RAYS), first(x, RAYS))


def test_a_norm_that_is_only_used_in_training_keeps_its_own_statistics():
    class Auxiliary(ConvNet):
        def __init__(self):
            super().__init__()
            self.aux = nn.BatchNorm1d(3)

        def forward(self, x):
            output = super().forward(x)
            return output + 0 * self.aux(output) if self.training else output

    model = hf.wrap(Auxiliary(), ["a", "b"])
    model.calibrate([torch.randn(4, 1, 9, 9)])
    assert model.at(RAYS[0]).aux.running_var.tolist() == [1, 1, 1]


def test_paired_needs_a_ray_for_each_row():
    model, x = wrapped("mlp")
    with pytest.raises(hf.HyperfrontError, match="3 rays, 6 rows"):
        model(x, RAYS, paired=True)


@pytest.mark.parametrize(("thing", "fix"), [(nn.ReLU, r"ReLU\(...\), an instance"), (torch.relu, "into an nn.Module")])
def test_what_is_no_module_is_refused(thing, fix):
    with pytest.raises(TargetError, match=f"(?s)only a module.*{fix}"):
        hf.wrap(thing, ["a", "b"])


@pytest.mark.parametrize("name", ["low_rank", "filmm"])
def test_a_name_that_is_no_hypernetwork_for_an_assembly_of_one_s_own_is_refused(name):
    with pytest.raises(hf.HyperfrontError, match="assembly of your own"):
        hf.wrap(nn.Linear(2, 1), ["a", "b"], hypernet=name, assembly=Replace)
