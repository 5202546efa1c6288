"""Modules with habits: what they do beside computing, and where they keep their tensors."""

from __future__ import annotations

import collections
import copy
import dataclasses
import itertools
import types

import torch
from torch import Tensor, nn


class Net(nn.Module):
    """Two layers, to which a test gives a habit."""

    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(4, 8), nn.Linear(8, 2)
        self.prepare()

    def prepare(self) -> None: ...

    def forward(self, x: Tensor) -> Tensor:
        return self.b(torch.tanh(self.first(x)))

    def first(self, x: Tensor) -> Tensor:
        return self.a(x)


@dataclasses.dataclass
class Config:
    weight: Tensor


class Callable:
    def __init__(self, weight: Tensor):
        self.weight = weight

    def __call__(self, x: Tensor) -> Tensor:
        return x @ self.weight.T


KEPT = {
    "deque": (lambda w: collections.deque([w]), lambda kept, x: x @ kept[0].T),
    "namespace": (lambda w: types.SimpleNamespace(w=w), lambda kept, x: x @ kept.w.T),
    "namespace in a list": (lambda w: [types.SimpleNamespace(w=w)], lambda kept, x: x @ kept[0].w.T),
    "dataclass in a tuple": (lambda w: (Config(w),), lambda kept, x: x @ kept[0].weight.T),
    "dict of dicts": (lambda w: {"a": {"w": w}}, lambda kept, x: x @ kept["a"]["w"].T),
    "callable object": (Callable, lambda kept, x: kept(x)),
    "method of an object": (lambda w: Callable(w).__call__, lambda kept, x: kept(x)),
}


class Keeps(Net):
    def __init__(self, keep, use):
        super().__init__()
        self.use, self.kept = use, keep(self.a.weight)

    def first(self, x: Tensor) -> Tensor:
        return self.use(self.kept, x) + self.a.bias


class Slots:
    __slots__ = ("weight",)

    def __init__(self, weight: Tensor):
        self.weight = weight


def closing_over(layer: nn.Module):
    return lambda *args: args[-1] + layer.weight.sum()


def replaced_forward(layer: nn.Module) -> None:
    before = layer.forward
    layer.forward = lambda x: 2 * before(x)


def tied_by_memory() -> nn.Module:
    net = nn.Sequential(nn.Linear(4, 3, bias=False), nn.Linear(3, 4, bias=False))
    net[1].weight = nn.Parameter(net[0].weight.t())
    return net


class Kind(nn.Parameter):
    """A parameter with methods of its own."""


class Lists(Net):
    def named_parameters(self, *args, **kwargs):
        return self.b.named_parameters("b")


class Frozen(Net):
    """BatchNorm that uses its running averages in training, too, and a ``train`` that returns nothing."""

    def prepare(self) -> None:
        self.norm = nn.BatchNorm1d(8)
        self.norm.running_mean.fill_(0.7)
        self.norm.running_var.fill_(3.0)
        self.train()

    def train(self, mode: bool = True) -> None:
        super().train(mode)
        self.norm.eval()

    def first(self, x: Tensor) -> Tensor:
        return self.norm(self.a(x))


class Initializes(Net):
    """Its first call sets a weight by the data, as ActNorm does."""

    def prepare(self) -> None:
        self.shift = nn.Parameter(torch.zeros(4))
        self.register_buffer("ready", torch.tensor(0))

    def first(self, x: Tensor) -> Tensor:
        if self.training and not self.ready:
            self.write(-x.mean(0))
            self.ready.fill_(1)
        return self.a(x + self.shift)

    def write(self, value: Tensor) -> None:
        self.shift.data.copy_(value)


class InitializesWithoutGrad(Initializes):
    def write(self, value: Tensor) -> None:
        with torch.no_grad():
            self.shift.copy_(value)


class Makes(Net):
    def first(self, x: Tensor) -> Tensor:
        if not hasattr(self, "scale"):
            self.scale = nn.Parameter(torch.ones(4))
        return self.a(x * self.scale)


class MakesOfNone(Net):
    def prepare(self) -> None:
        self.register_parameter("scale", None)

    def first(self, x: Tensor) -> Tensor:
        if self.scale is None:
            self.scale = nn.Parameter(torch.ones(4))
        return self.a(x * self.scale)


class MakesBuffer(Net):
    def first(self, x: Tensor) -> Tensor:
        if not hasattr(self, "size"):
            self.register_buffer("size", self.a.weight.detach().abs().mean(0), persistent=False)
        return self.a(x / self.size)


class Clamps(Net):
    def first(self, x: Tensor) -> Tensor:
        self.a.weight.data.clamp_(-0.1, 0.1)
        return self.a(x)


class Switches(Net):
    def first(self, x: Tensor) -> Tensor:
        self.a.weight.requires_grad_(False)
        return self.a(x)


class CopiesItself(Net):
    def first(self, x: Tensor) -> Tensor:
        return copy.deepcopy(self.a)(x)


class Overwrites(Net):
    def first(self, x: Tensor) -> Tensor:
        return self.a(x.sub_(0.5))


class Assigns(Net):
    def first(self, x: Tensor) -> Tensor:
        self.a.weight = nn.Parameter(self.a.weight.detach().clamp(-0.1, 0.1))
        return self.a(x)


class Codebook(Net):
    """Moves a codebook by assigning it, as the VQ-VAE's running averages do."""

    def prepare(self) -> None:
        self.codes = nn.Embedding(5, 8)

    def first(self, x: Tensor) -> Tensor:
        hidden = self.a(x)
        index = torch.cdist(hidden.detach(), self.codes.weight.detach()).argmin(-1)
        found = self.codes(index)
        if self.training:
            moved = 0.9 * self.codes.weight.detach() + 0.1 * x.mean()
            self.codes.weight = nn.Parameter(moved, requires_grad=self.codes.weight.requires_grad)
        return hidden + (found - hidden).detach()


class Counts(Net):
    def prepare(self) -> None:
        self.register_buffer("calls", torch.zeros(()))

    def first(self, x: Tensor) -> Tensor:
        self.calls += 1
        return self.a(x) / self.calls


class CountsInPython(Net):
    calls = 0

    def prepare(self) -> None:
        self.calls = 0

    def first(self, x: Tensor) -> Tensor:
        self.calls += 1
        return self.a(x) / self.calls


class CountsAndFails(Counts):
    def first(self, x: Tensor) -> Tensor:
        y = super().first(x)
        return y * float(y.detach().sum() < 1e9)  # vmap cannot have a number


class Remembers(Net):
    def prepare(self) -> None:
        self.state = torch.zeros(8)

    def first(self, x: Tensor) -> Tensor:
        y = self.a(x) + self.state
        self.state = y.detach().mean(0)
        return y


class RemembersFromNone(Net):
    state: Tensor | None = None

    def first(self, x: Tensor) -> Tensor:
        y = self.a(x)
        y = y + self.state if self.state is not None and self.state.shape == y.shape[1:] else y
        self.state = y.detach().mean(0)
        return y


class CountsLater(Net):
    def prepare(self) -> None:
        self.register_buffer("calls", torch.zeros(()))
        self.clock = itertools.count()

    def first(self, x: Tensor) -> Tensor:
        if next(self.clock) > 0:
            self.calls += 1
        return self.a(x)


class Grows(Net):
    def prepare(self) -> None:
        self.register_buffer("table", torch.zeros(0), persistent=False)

    def first(self, x: Tensor) -> Tensor:
        if len(self.table) < len(x):
            self.table = torch.arange(1.0, 1 + len(x)).sqrt()
        return self.a(x * self.table[: len(x), None])


class Reverses(Net):
    """Turns the gradient around, as for domains that an encoder should not tell apart."""

    def first(self, x: Tensor) -> Tensor:
        y = self.a(x)
        if y.requires_grad:
            self.turn(y)
        return y

    def turn(self, y: Tensor) -> None:
        y.register_hook(torch.neg)


class ReversesNode(Reverses):
    def turn(self, y: Tensor) -> None:
        y.grad_fn.register_hook(lambda inner, _: tuple(g and -g if g is None else -g for g in inner))


class ReversesLayer(Net):
    def prepare(self) -> None:
        self.b.register_full_backward_hook(lambda _, inner, __: (-inner[0],))


class ReversesBefore(Net):
    def prepare(self) -> None:
        self.b.register_full_backward_pre_hook(lambda _, outer: (-outer[0],))


class Adapts(nn.Module):
    """Takes a step of gradient descent in forward, as MAML does."""

    def __init__(self):
        super().__init__()
        self.net = Net()

    def forward(self, x: Tensor) -> Tensor:
        weights = dict(self.net.named_parameters())
        with torch.enable_grad():
            slopes = torch.autograd.grad(self.net(x).square().mean(), list(weights.values()), create_graph=True)
        adapted = {name: weight - 0.1 * slope for (name, weight), slope in zip(weights.items(), slopes)}
        return torch.func.functional_call(self.net, adapted, (x,))
