"""hf.check: what it finds in modules that are broken on purpose, and what it lets pass."""

from __future__ import annotations

import pickle
import random

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

import hyperfront as hf
from hyperfront.errors import TargetError
from hyperfront.training import step
from tests.helpers.architectures import ARCHITECTURES
from tests.helpers.modules import CASES, ConvNet, mlp
from tests.oracle.case import call, two_losses


def checked(module: nn.Module, x: object, **options) -> step.StepResult:
    torch.manual_seed(0)
    model = hf.wrap(module, ["a", "b"], **(options or {"hidden": 8}))
    return hf.check(model, x, lambda net: two_losses(call(net, x)))


class Net(nn.Module):
    """Two layers, to be broken."""

    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(5, 6), nn.Linear(6, 2)

    def forward(self, x: Tensor) -> Tensor:
        return self.b(torch.tanh(self.first(x)))

    def first(self, x: Tensor) -> Tensor:
        return self.a(x)


@pytest.mark.parametrize("name", CASES)
def test_modules_that_are_as_they_should_be_pass(name):
    torch.manual_seed(0)
    found = checked(*CASES[name]())
    assert found.error < 1e-3
    assert not found.idle


@pytest.mark.parametrize("name", ARCHITECTURES)
def test_every_kind_of_hypernetwork_passes(name):
    assert checked(mlp(), torch.randn(6, 5), **ARCHITECTURES[name]).error < 1e-3


def test_a_parameter_that_the_losses_of_a_plain_copy_alone_depend_on_is_named():
    class Kept(Net):
        def first(self, x: Tensor) -> Tensor:
            weight = self.a.weight if type(self.a.weight) is nn.Parameter else self.a.weight.detach()
            return F.linear(x, weight, self.a.bias)

    with pytest.raises(TargetError, match=r"generated weights[\s\S]*a\.weight"):
        checked(Kept(), torch.randn(6, 5))


class Hidden(Net):
    """Has a layer that neither its parameters nor its attributes show."""

    layers = (nn.Linear(5, 5),)

    def first(self, x: Tensor) -> Tensor:
        return self.a(self.layers[0](x))


def test_a_layer_that_is_not_registered_is_found():
    with pytest.raises(TargetError, match=r"does not register[\s\S]*\[5, 5\]"):
        checked(Hidden(), torch.randn(6, 5))


class Again(torch.autograd.Function):
    """Runs its layer again in the backward pass, with weights that were there before."""

    @staticmethod
    def forward(ctx, layer, stale, x, weight, bias):
        ctx.stale, ctx.layer = stale, layer
        ctx.save_for_backward(x, weight, bias)
        return F.linear(x, weight, bias).detach()

    @staticmethod
    def backward(ctx, gradient):
        x, _, _ = ctx.saved_tensors
        return None, None, gradient @ ctx.stale, gradient.mT @ x, gradient.sum(0)


def test_a_backward_pass_that_sees_other_weights_is_found():
    class Stale(Net):
        def __init__(self):
            super().__init__()
            self.c = nn.Linear(6, 6)
            self.stale = self.c.weight.detach().clone().numpy()  # what a recomputation sees that nobody substitutes

        def forward(self, x: Tensor) -> Tensor:
            hidden = torch.tanh(self.a(x))
            generated = type(self.c.weight) is not nn.Parameter
            stale = torch.from_numpy(self.stale) if generated else self.c.weight.detach()
            return self.b(torch.tanh(Again.apply(self.c, stale, hidden, self.c.weight, self.c.bias)))

    with pytest.raises(TargetError, match=r"gradient[\s\S]*a\.(weight|bias)[\s\S]*again in the backward pass"):
        checked(Stale(), torch.randn(6, 5))


def test_a_module_that_predicts_something_else_at_a_ray_is_found():
    class Counting(Net):
        def forward(self, x: Tensor) -> Tensor:
            plain = type(self.a.weight) is nn.Parameter
            return super().forward(x) * (1.5 if plain and not self.training else 1)

    with pytest.raises(TargetError, match=r"at\(ray\)"):
        checked(Counting(), torch.randn(6, 5))


def test_generated_tensors_that_no_loss_depends_on_are_listed():
    class TwoHeads(Net):
        def __init__(self):
            super().__init__()
            self.unused = nn.Linear(6, 2)

    assert checked(TwoHeads(), torch.randn(6, 5)).idle == ("unused.weight", "unused.bias")


@pytest.mark.parametrize("batching", ["loop", "auto", "vmap"])
def test_dropout_is_drawn_alike_on_both_sides(batching):
    module = nn.Sequential(nn.Linear(5, 8), nn.Dropout(0.5), nn.Tanh(), nn.Linear(8, 2))
    assert checked(module, torch.randn(6, 5), batching=batching).error < 1e-3


def test_a_module_of_which_no_two_calls_agree_is_let_pass():
    class Moody(Net):
        def first(self, x: Tensor) -> Tensor:
            return self.a(x) * (random.SystemRandom().random() if self.training else 1)

    assert checked(Moody(), torch.randn(6, 5)).error > 0.01


class Layerdrop(Net):
    """Leaves its first layer out of half of its calls, as Python's random numbers say."""

    def first(self, x: Tensor) -> Tensor:
        return self.a(x) * float(random.random() < 0.5)


class Masked(Net):
    """Draws a mask from a generator of its own."""

    def __init__(self, generator: object):
        super().__init__()
        self.generator = generator

    def first(self, x: Tensor) -> Tensor:
        draw = self.generator
        mask = torch.rand(6, generator=draw) if isinstance(draw, torch.Generator) else torch.tensor(draw.random())
        return self.a(x) * mask


class Counting(Net):
    """Divides by the number of its calls, of which it keeps count as no buffer."""

    def __init__(self):
        super().__init__()
        self.calls = 0

    def first(self, x: Tensor) -> Tensor:
        self.calls += 1
        self.last = float(self.calls)
        return self.a(x) / self.calls


STATES = {
    "Python's random numbers": Layerdrop,
    "a generator of PyTorch": lambda: Masked(torch.Generator().manual_seed(0)),
    "a generator of Python": lambda: Masked(random.Random(0)),
    "a generator of NumPy": lambda: Masked(np.random.default_rng(0)),
    "a counter": Counting,
}


@pytest.mark.parametrize("name", STATES)
def test_states_of_a_module_are_the_same_on_both_sides_and_afterwards(name):
    random.seed(0)
    torch.manual_seed(0)
    model, x = hf.wrap(STATES[name](), ["a", "b"], hidden=8, batching="loop"), torch.randn(6, 5)
    skeleton = model.target.skeleton

    def state() -> object:
        attributes = {key: value for key, value in vars(skeleton).items() if key in ("calls", "last")}
        generator = getattr(skeleton, "generator", None)
        drawn = generator.get_state().tolist() if isinstance(generator, torch.Generator) else generator
        return pickle.dumps((random.getstate(), attributes, drawn))

    for _ in range(5):
        before = state()
        assert hf.check(model, x, lambda net: two_losses(net(x))).error < 1e-3
        assert state() == before
        random.random()


def test_losses_that_a_hook_changes_are_named_as_the_difference():
    model, x = hf.wrap(Net(), ["a", "b"], hidden=8, batching="loop"), torch.randn(6, 5)
    layer = model.target.skeleton.a

    def louder(module: nn.Module, args: tuple, output: Tensor) -> Tensor:
        return output * (2 if module is layer else 1)

    layer.register_forward_hook(louder)
    with pytest.raises(TargetError, match="the losses of a step"):
        hf.check(model, x, lambda net: two_losses(net(x)))


def test_parameters_of_one_s_own_losses_are_no_fault_of_the_module():
    critic, x = nn.Linear(2, 2), torch.randn(6, 5)
    model = hf.wrap(Net(), ["a", "b"], hidden=8)
    hf.check(model, x, lambda net: two_losses(critic(net(x))))
    assert critic.weight.grad is None
    encoder = nn.Linear(4, 5)
    inputs = encoder(torch.randn(6, 4))
    hf.check(model, inputs, lambda net: two_losses(net(inputs)))


def test_a_module_for_some_weights_only_is_tried_where_it_starts():
    class Positive(Net):
        def __init__(self):
            super().__init__()
            self.scale = nn.Parameter(torch.zeros(()))

        def first(self, x: Tensor) -> Tensor:
            if self.scale != 0:
                raise ValueError("only zero will do")
            return self.a(x) + self.scale

    model = hf.wrap(Positive(), ["a", "b"], hypernet="low_rank", rank=1)
    x = torch.randn(6, 5)
    assert hf.check(model, x, lambda net: two_losses(net(x))).error < 1e-3


@pytest.mark.parametrize("batchnorm", ["grid", "batch", "shared"])
@pytest.mark.parametrize("training", [True, False])
def test_nothing_is_changed(batchnorm, training):
    torch.manual_seed(0)
    model = hf.wrap(
        nn.Sequential(ConvNet(), nn.Dropout(0.2)), ["a", "b"], hidden=8, batchnorm=batchnorm, generate="0.c*"
    )
    model.train(training)
    x = torch.randn(6, 1, 9, 9)
    gradient = torch.ones_like(next(model.parameters()))
    next(model.parameters()).grad = gradient
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    record, state = dict(model.record), torch.get_rng_state()
    hf.check(model, x, lambda net: two_losses(net(x)))
    after = model.state_dict()
    assert before.keys() == after.keys()
    assert all(torch.equal(before[name], after[name]) for name in before)
    assert torch.equal(state, torch.get_rng_state())
    assert next(model.parameters()).grad is gradient
    assert all(p.grad is None for p in list(model.parameters())[1:])
    assert (model.record, model.training) == (record, training)


def test_fit_refuses_before_its_first_step():
    problem = hf.supervised(
        (torch.randn(8, 5),),
        losses={name: lambda output, _, j=j: two_losses(output)[j] for j, name in enumerate("ab")},
    )
    model = hf.wrap(Hidden(), ["a", "b"], hidden=8)
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    with pytest.raises(TargetError, match="register"):
        hf.fit(model, problem, epochs=1, batch_size=4, callbacks=[])
    assert all(torch.equal(before[name], tensor) for name, tensor in model.state_dict().items())


@pytest.mark.gpu
@pytest.mark.parametrize("name", CASES)
def test_modules_pass_on_a_gpu(name):
    torch.manual_seed(0)
    module, x = CASES[name]()
    model = hf.wrap(module, ["a", "b"], hidden=8).cuda()
    x = tuple(t.cuda() for t in x) if isinstance(x, tuple) else x.cuda()
    assert hf.check(model, x, lambda net: two_losses(call(net, x))).error < 1e-2
