"""What modules do beside computing, which generated weights could get wrong without a word: right, or refused."""

from __future__ import annotations

import copy
import functools
import pickle
import threading
import types
import warnings
import weakref

import pytest
import torch
from torch import Tensor, nn

import hyperfront as hf
from hyperfront.errors import CheckpointError, TargetError
from tests.helpers.habits import (
    KEPT,
    Assigns,
    Clamps,
    Codebook,
    CopiesItself,
    Counts,
    CountsAndFails,
    CountsInPython,
    CountsLater,
    Frozen,
    Grows,
    Initializes,
    InitializesWithoutGrad,
    Keeps,
    Kind,
    Lists,
    Makes,
    MakesBuffer,
    MakesOfNone,
    Net,
    Overwrites,
    Remembers,
    RemembersFromNone,
    Reverses,
    ReversesBefore,
    ReversesLayer,
    ReversesNode,
    Slots,
    Switches,
    closing_over,
    replaced_forward,
    tied_by_memory,
)
from tests.oracle.case import two_losses

X = torch.randn(6, 4, generator=torch.Generator().manual_seed(0))
RAYS = torch.tensor([[0.3, 0.7], [0.8, 0.2]])


def wrap(module: nn.Module, **options) -> hf.ParetoModel:
    torch.manual_seed(0)
    model = hf.wrap(module, ["left", "right"], **({"hidden": 6} | options))
    with torch.no_grad():  # away from the start, where every ray has nearly the module's own weights
        for p in model.hypernet.parameters():
            p.add_(0.1 * torch.randn_like(p))
    return model


def gradient(model: hf.ParetoModel, x: Tensor = X, rays: Tensor = RAYS) -> Tensor:
    model.zero_grad()
    hf.backward(model, rays, lambda net: two_losses(net(x)), solver=hf.LS())
    return torch.cat([p.grad.flatten() for p in model.parameters()])


def made(kind: type[nn.Module]) -> nn.Module:
    torch.manual_seed(1)
    return kind()


# ---- where a module keeps its tensors --------------------------------------------------------------------------------


@pytest.mark.parametrize("name", KEPT)
def test_a_parameter_kept_in_another_object_is_generated_there(name):
    torch.manual_seed(1)
    model = wrap(Keeps(*KEPT[name]))
    expected = gradient(wrap(made(Net)))
    torch.testing.assert_close(gradient(model), expected)
    torch.testing.assert_close(gradient(copy.deepcopy(model)), expected)


def changed(module: nn.Module, change) -> nn.Module:
    change(module)
    return module


AT_WRAP = {
    "view of a weight": (lambda m: setattr(m, "w", m.a.weight.t()), "share memory[^:]*got: +a.weight and w of Net"),
    "data of a weight": (lambda m: setattr(m, "w", [m.a.weight.data]), "share memory"),
    "buffer on a weight": (lambda m: m.register_buffer("w", m.a.weight.data[0]), "share memory"),
    "weight on another's memory": (lambda m: setattr(m.b.weight, "data", m.a.weight.data.view(2, 16)[:, :8]), "share"),
    "expanded parameter": (lambda m: setattr(m, "w", nn.Parameter(torch.zeros(1).expand(4))), "expanded"),
    "hook on a gradient": (lambda m: m.a.weight.register_hook(torch.neg), "hook on a.weight"),
    "accumulation hook": (lambda m: m.a.weight.register_post_accumulate_grad_hook(print), "hook on a.weight"),
    "hook with a layer": (lambda m: m.a.register_forward_hook(closing_over(m.b)), "function holds a Linear"),
    "function in a list": (lambda m: setattr(m, "functions", [closing_over(m.b)]), "function holds a Linear"),
    "function in a partial": (lambda m: setattr(m, "f", functools.partial(closing_over(m.b))), "function holds"),
    "forward replaced": (replaced_forward, "function holds"),
    "weak reference": (lambda m: setattr(m, "up", weakref.ref(m)), "weak reference holds"),
    "slots": (lambda m: setattr(m, "w", Slots(m.a.weight)), "__slots__"),
    "tuple": (lambda m: setattr(m, "w", (m.a.weight,)), "tuple"),
    "hidden layer": (lambda m: m.__dict__.update(c=nn.Linear(2, 2)), "a Linear, with a parameter .* c.weight"),
    "layers in lists": (lambda m: setattr(m, "c", [[nn.Linear(2, 2)]]), r"c\[0\]\[0\].weight"),
    "hidden parameter": (lambda m: setattr(m, "c", {"w": [nn.Parameter(X)]}), r"c\['w'\]\[0\] of Net.*not registered"),
    "no values": (lambda m: setattr(m, "a", nn.Linear(4, 8, device="meta")), "a.weight on the device 'meta'"),
    "lock": (lambda m: setattr(m, "lock", threading.Lock()), "cannot be copied"),
    "type of parameter": (lambda m: setattr(m, "p", Kind(torch.ones(4))), "p: a Kind"),
    "compiled layer": (lambda m: setattr(m, "a", torch.compile(m.a)), "torch.compile"),
}


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of torch.compile itself
@pytest.mark.parametrize("name", AT_WRAP)
def test_what_generated_weights_would_lose_is_refused_at_wrap(name):
    change, words = AT_WRAP[name]
    module = Net()
    change(module)
    with pytest.raises(TargetError, match=f"(?s){words}"):
        wrap(module)


@pytest.mark.parametrize(("make", "words"), [(tied_by_memory, "0.weight and 1.weight"), (Lists, "2 of 4")])
def test_modules_whose_parameters_are_not_what_they_seem_are_refused(make, words):
    with pytest.raises(TargetError, match=words):
        wrap(make())


def test_parameters_beside_each_other_in_one_memory_are_no_fault():
    """As cuDNN and flat optimizers lay them; frozen ones may even overlap."""
    module, flat = Net(), torch.randn(2, 4, 8)
    module.a.weight.data, module.c = flat[0].T, nn.Parameter(flat[1, :, ::2])
    module.d, module.e = nn.Parameter(flat[1, :, 1::2]), nn.Parameter(X, requires_grad=False)
    module.f = module.e[0]
    assert wrap(module).target.n == 32 + 8 + 18 + 16 + 16


def test_a_tied_tensor_is_chosen_by_any_of_its_names():
    module = nn.ModuleDict({"enc": nn.Linear(4, 4), "dec": nn.Linear(4, 4)})
    module["dec"].weight = module["enc"].weight
    assert wrap(module, generate="dec.*").target.assembly.names == ("enc.weight", "dec.bias")
    assert wrap(module, generate=lambda name, _: name == "dec.weight").target.assembly.names == ("enc.weight",)


def test_extra_state_is_in_files_and_state_dicts(tmp_path):
    class Scaled(Net):
        state: object = None

        def get_extra_state(self):
            return self.state

        def set_extra_state(self, state):
            self.state = state

        def first(self, x: Tensor) -> Tensor:
            return self.a(x) * self.state["scale"][0] * self.state["each"]

    module = Scaled()
    module.state = {"scale": (7.0, None), "each": torch.arange(8.0), 3: ["text"]}
    model = wrap(module).eval()
    model.save(tmp_path / "model.safetensors")
    loaded, other = hf.load(tmp_path / "model.safetensors", target=Scaled()), wrap(Scaled())
    other.load_state_dict(model.state_dict())
    for found in (loaded, other.eval()):
        assert torch.equal(found(X, RAYS), model(X, RAYS)) and found.at(RAYS[0]).state[3] == ["text"]
    model.target.skeleton.state = {"scale": object()}
    with pytest.raises(CheckpointError, match="extra state"):
        model.save(tmp_path / "model.safetensors")


# ---- modes -----------------------------------------------------------------------------------------------------------


def test_modes_of_layers_are_those_of_the_module_that_was_given():
    class Drops(Net):
        def prepare(self) -> None:
            self.drop, self.norm = nn.Dropout(0.5).eval(), nn.BatchNorm1d(8)

        def first(self, x: Tensor) -> Tensor:
            return self.drop(self.norm(self.a(x)))

    model, problem = wrap(Drops(), batching="loop"), hf.supervised((X,), losses={"left": spread, "right": spread})
    for use in (lambda: None, lambda: model.calibrate([X]), lambda: hf.evaluate(model, problem.train), model_checked):
        use(model) if use is model_checked else use()
        assert model.training and torch.equal(gradient(model), gradient(model))
    assert not torch.equal(gradient(model.train()), gradient(model))  # as in PyTorch, train() reaches all layers


def spread(output: Tensor, _: object) -> Tensor:
    return output.square().mean()


def model_checked(model: hf.ParetoModel) -> None:
    hf.check(model, X, lambda net: two_losses(net(X)))


@pytest.mark.parametrize("frozen", [None, "bn"], ids=["by its own train()", "by hand"])
@pytest.mark.parametrize("batchnorm", ["grid", "batch", "shared"])
def test_a_frozen_norm_keeps_its_averages_in_training_and_evaluation(frozen, batchnorm, tmp_path):
    module = Frozen()
    if frozen:
        module.__class__ = type("Unfrozen", (Net,), {"first": Frozen.first})
    model = wrap(module, batchnorm=batchnorm)
    trained = hf.backward(model, RAYS[:1], lambda net: two_losses(net(X)), solver=hf.LS()).losses[0]
    model.calibrate([X])
    model.eval()
    model.save(tmp_path / "model.safetensors")
    plain = model.at(RAYS[0])
    loaded = hf.load(tmp_path / "model.safetensors", target=Frozen() if frozen is None else copy.deepcopy(module))
    for output in (model(X, RAYS[:1])[0], plain(X), loaded(X, RAYS[:1])[0]):
        torch.testing.assert_close(torch.stack(two_losses(output)), trained)
    assert plain.norm.running_mean.tolist() == pytest.approx([0.7] * 8) and not plain.training


def test_a_frozen_instance_norm_keeps_its_averages_too():
    class FrozenInstances(Frozen):
        def prepare(self) -> None:
            self.norm = nn.InstanceNorm1d(8, track_running_stats=True)
            self.norm.running_mean.fill_(0.7)
            self.train()

        def first(self, x: Tensor) -> Tensor:
            return self.norm(self.a(x).T).T

    model = wrap(FrozenInstances())
    trained = hf.backward(model, RAYS[:1], lambda net: two_losses(net(X)), solver=hf.LS()).losses[0]
    for output in (model.eval()(X, RAYS[:1])[0], model.at(RAYS[0])(X)):
        torch.testing.assert_close(torch.stack(two_losses(output)), trained)


def test_a_norm_that_forward_freezes_is_refused():
    class Freezes(Frozen):
        train = nn.Module.train

        def first(self, x: Tensor) -> Tensor:
            return self.norm.eval()(self.a(x))

    with pytest.raises(TargetError, match="norm: training = False"):
        gradient(wrap(Freezes().train()))


# ---- what forward changes --------------------------------------------------------------------------------------------


CHANGES = {
    Initializes: "run the module once",
    InitializesWithoutGrad: "run the module once",
    Makes: "got: +scale",
    MakesOfNone: "got: +scale",
    MakesBuffer: "got: +size",
    Clamps: "a.weight",
    Switches: "requires_grad_",
    CopiesItself: "copies a layer",
    Overwrites: "inputs in place",
    Assigns: "a parameter that is generated",
}


@pytest.mark.parametrize("batching", ["auto", "loop"])
@pytest.mark.parametrize("kind", CHANGES, ids=lambda kind: kind.__name__)
def test_changes_that_generated_weights_would_lose_are_refused_at_every_call(kind, batching):
    model, x = wrap(kind(), batching=batching), X.clone()
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    for _ in range(2):
        with pytest.raises(TargetError, match=f"(?s){CHANGES[kind]}"):
            gradient(model, x)
    assert torch.equal(x, X)
    assert all(torch.equal(before[name], tensor) for name, tensor in model.state_dict().items())


@pytest.mark.parametrize("kind", [Initializes, InitializesWithoutGrad, Makes, MakesOfNone, MakesBuffer])
def test_after_a_call_of_its_own_such_a_module_is_right(kind):
    module = made(kind)
    module(X + 3)
    model = wrap(module)
    model_checked(model)
    if hasattr(module, "shift"):
        assert model.target.unpack(model.target.start())["shift"].tolist() == module.shift.tolist()


def test_evaluation_leaves_the_stored_data_as_it_was():
    problem = hf.supervised((X.clone(),), losses={"left": spread, "right": spread})
    with pytest.raises(TargetError, match="inputs in place"):
        hf.evaluate(wrap(Overwrites()), problem.train)
    (batch,) = problem.train.source.batches(len(X), torch.device("cpu"))
    assert torch.equal(batch[0], X)


def test_a_frozen_parameter_that_forward_assigns_is_kept():
    module = Codebook()
    module.codes.weight.requires_grad_(False)
    plain, model = copy.deepcopy(module), wrap(module)
    gradient(model)
    for _ in RAYS:
        plain(X)
    torch.testing.assert_close(model.at(RAYS[0]).codes.weight, plain.codes.weight)
    torch.testing.assert_close(model.state_dict()["target.tensor:codes/weight"], plain.codes.weight)
    model_checked(model)


def test_a_trained_parameter_that_forward_assigns_is_refused():
    with pytest.raises(TargetError, match="a parameter that is trained"):
        gradient(wrap(Codebook(), generate=["a.*", "b.*"]))


# ---- from one call to the next ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [Counts, CountsInPython, CountsAndFails, Remembers])
def test_what_one_call_leaves_for_the_next_goes_from_ray_to_ray(kind):
    models = [wrap(made(kind), batching=batching) for batching in ("auto", "loop")]
    for _ in range(3):
        found, expected = map(gradient, models)
        torch.testing.assert_close(found, expected)
    for model in models:
        assert float(getattr(model.at(RAYS[0]), "calls", 6)) == 6
    torch.testing.assert_close(models[0].at(RAYS[0])(X), models[1].at(RAYS[0])(X))


@pytest.mark.parametrize("kind", [Counts, CountsInPython, Remembers])
def test_rays_that_see_each_other_s_changes_are_refused_together(kind):
    with pytest.raises(TargetError, match="changes its state for the next call"):
        gradient(wrap(kind(), batching="vmap"))


@pytest.mark.parametrize(("kind", "words"), [(RemembersFromNone, "left in an attribute"), (CountsLater, "calls")])
def test_a_state_that_only_later_calls_show_is_an_error_with_rays_together(kind, words):
    model = wrap(kind())
    gradient(model)
    with pytest.raises(TargetError, match=f'(?s){words}.*batching="loop"'):
        gradient(model)
    model = wrap(kind(), batching="loop")
    for _ in range(2):
        gradient(model)


def test_what_rays_together_leave_in_attributes_is_none_in_copies():
    class Shows(Net):
        def first(self, x: Tensor) -> Tensor:
            self.shown = {"hidden": [self.a(x)]}
            return self.shown["hidden"][0]

    model = wrap(Shows())
    for _ in range(2):
        gradient(model)
    for other in (model, copy.deepcopy(model)):
        assert other.at(RAYS[0]).shown == {"hidden": [None]}


def test_a_cache_that_grows_is_right_everywhere(tmp_path):
    problem = hf.supervised((X.repeat(4, 1),), losses={"left": spread, "right": spread})
    model = wrap(Grows(), generate="a.*")
    model_checked(model)
    hf.fit(model, problem, epochs=1, batch_size=12, rays_per_step=2, callbacks=[])
    model.eval().save(tmp_path / "model.safetensors")
    expected, plain = model(X, RAYS), Grows()
    plain.load_state_dict(model.at(RAYS[0]).state_dict())
    torch.testing.assert_close(plain(X), expected[0])
    torch.testing.assert_close(model.at(RAYS[0])(X), expected[0])
    torch.testing.assert_close(hf.load(tmp_path / "model.safetensors", target=Grows())(X, RAYS), expected)


def test_a_buffer_to_which_an_attribute_refers_is_not_assigned_in_both_places():
    class Refers(Grows):
        def prepare(self) -> None:
            super().prepare()
            self.first_table = self.table

    with pytest.raises(TargetError, match="two places"):
        gradient(wrap(Refers()))


# ---- hooks -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [Reverses, ReversesNode, ReversesLayer, ReversesBefore])
def test_hooks_on_gradients_see_those_of_one_ray(kind):
    found, plain = gradient(wrap(made(kind))), gradient(wrap(made(Net)))
    torch.testing.assert_close(found, gradient(wrap(made(kind), batching="loop")))
    assert not torch.allclose(found, plain)
    with pytest.raises(TargetError, match="hooks on gradients"):
        gradient(wrap(made(kind), batching="vmap"))


def test_a_module_that_asks_for_gradients_has_the_same_answer_at_every_call():
    class Asks(Net):
        def first(self, x: Tensor) -> Tensor:
            y = self.a(x)
            return 2 * y if y.requires_grad else y

    models = [wrap(made(Asks), batching=batching) for batching in ("vmap", "loop")]
    for _ in range(2):
        torch.testing.assert_close(*map(gradient, models))


@pytest.mark.filterwarnings("ignore:Full backward hook is firing")
def test_hooks_on_all_layers_see_gradients_of_one_ray():
    seen = []
    handle = nn.modules.module.register_module_full_backward_hook(lambda _, __, outer: seen.append(outer[0].shape))
    try:
        gradient(wrap(Net()))
    finally:
        handle.remove()
    assert torch.Size([6, 2]) in seen


# ---- calls -----------------------------------------------------------------------------------------------------------


def test_outputs_whose_shape_depends_on_the_weights_say_so():
    class Selects(Net):
        def forward(self, x: Tensor) -> Tensor:
            y = super().forward(x)
            return y[y[:, 0] > 0]

    with pytest.raises(TargetError, match="shapes depend on the weights"):
        wrap(Selects())(X, hf.rays(9, m=2))


@pytest.mark.filterwarnings("ignore::FutureWarning")
def test_programs_and_models_inside_of_a_module_work():
    class Inner(Net):
        def prepare(self) -> None:
            self.model, self.program = wrap(nn.Linear(4, 4)), torch.jit.script(nn.Linear(8, 8))

        def first(self, x: Tensor) -> Tensor:
            return self.program(self.a(x + self.model(x, RAYS[:1])[0]))

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model_checked(wrap(Inner()))


def test_a_model_that_keeps_things_is_pickled():
    torch.manual_seed(1)
    model = wrap(Keeps(KEPT["namespace"][0], _of_namespace))
    expected = gradient(model)
    torch.testing.assert_close(gradient(pickle.loads(pickle.dumps(model))), expected)


def _of_namespace(kept: types.SimpleNamespace, x: Tensor) -> Tensor:
    return x @ kept.w.T
