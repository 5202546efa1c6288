"""Where parameters and buffers live: tied, parametrized, in lists, shared, assigned, strided."""

from __future__ import annotations

import warnings

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.utils import parametrizations, parametrize

from tests.oracle.case import Case
from tests.oracle.zoo.layers import between, randn


def pair(first: nn.Module) -> nn.Module:
    """A layer of 4 to 6 features, and a head."""
    return between(first, nn.Linear(6, 2), nn.Tanh())


def old_norm(name: str) -> nn.Module:
    """A layer normalized by the hooks of before parametrizations."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return pair(getattr(nn.utils, name)(nn.Linear(4, 6)))


class Symmetric(nn.Module):
    """A parametrization by hand."""

    def forward(self, x: Tensor) -> Tensor:
        return x.triu() + x.triu(1).mT


def symmetric() -> nn.Module:
    layer = nn.Linear(4, 4)
    parametrize.register_parametrization(layer, "weight", Symmetric())
    return between(layer, nn.Linear(4, 2), nn.Tanh())


class AssignedBuffer(nn.Module):
    """A running mean that is assigned anew at every call, and one that is changed in place."""

    def __init__(self, in_place: bool):
        super().__init__()
        self.in_place, self.head = in_place, nn.Linear(4, 2)
        self.register_buffer("mean", torch.zeros(4))

    def forward(self, x: Tensor) -> Tensor:
        y = self.head(x - self.mean)
        if self.training:
            moved = 0.9 * self.mean + 0.1 * x.mean(0).detach()
            if self.in_place:
                self.mean.copy_(moved)
            else:
                self.mean = moved
        return y


class PythonList(nn.Module):
    """Parameters that are reached through a plain list."""

    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(4, 6), nn.Linear(6, 2)
        self.all = [self.a.weight, self.b.weight]

    def forward(self, x: Tensor) -> Tensor:
        return F.linear(torch.tanh(F.linear(x, self.all[0], self.a.bias)), self.all[1], self.b.bias)


class Cached(nn.Module):
    """Parameters kept under a second name that PyTorch does not see."""

    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(4, 6), nn.Linear(6, 2)
        self.__dict__["weight"] = self.a.weight

    def forward(self, x: Tensor) -> Tensor:
        return self.b(torch.tanh(F.linear(x, self.weight, self.a.bias)))


class HiddenLayers(nn.Module):
    """Layers in a plain list, beside one that is registered."""

    def __init__(self):
        super().__init__()
        self.head = nn.Linear(4, 2)
        self.layers = [nn.Linear(4, 4), nn.Linear(4, 4)]

    def forward(self, x: Tensor) -> Tensor:
        for layer in self.layers:
            x = torch.tanh(layer(x))
        return self.head(x)


class Closure(nn.Module):
    """A function made in the constructor that holds on to a layer."""

    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(4, 6), nn.Linear(6, 2)
        first = self.a
        self.apply_first = lambda x: F.linear(x, first.weight, first.bias)

    def forward(self, x: Tensor) -> Tensor:
        return self.b(torch.tanh(self.apply_first(x)))


class Bound(nn.Module):
    """A method of a layer, kept."""

    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(4, 6), nn.Linear(6, 2)
        self.first = self.a.forward

    def forward(self, x: Tensor) -> Tensor:
        return self.b(torch.tanh(self.first(x)))


class Strided(nn.Module):
    """Parameters that are not contiguous."""

    def __init__(self):
        super().__init__()
        self.w, self.v = nn.Parameter(torch.randn(6, 4).T / 2), nn.Parameter(torch.randn(6, 4)[:, ::2] / 2)

    def forward(self, x: Tensor) -> Tensor:
        return torch.tanh(x @ self.w) @ self.v


class Collections(nn.Module):
    """Parameters in a list and in a dict of ``torch.nn``."""

    def __init__(self):
        super().__init__()
        self.list = nn.ParameterList([nn.Parameter(torch.randn(4, 4) / 2) for _ in range(2)])
        self.dict = nn.ParameterDict({"scale": nn.Parameter(torch.ones(4)), "shift": nn.Parameter(torch.zeros(4))})

    def forward(self, x: Tensor) -> Tensor:
        for weight in self.list:
            x = torch.tanh(x @ weight)
        return x * self.dict["scale"] + self.dict["shift"]


class Shared(nn.Module):
    """One layer under two names, one parameter in two layers, one scalar."""

    def __init__(self):
        super().__init__()
        self.a, self.scale = nn.Linear(4, 4), nn.Parameter(torch.tensor(1.5))
        self.b, self.c = nn.Sequential(self.a, nn.Tanh(), self.a), nn.Linear(4, 4)
        self.c.bias = self.a.bias

    def forward(self, x: Tensor) -> Tensor:
        return self.c(self.b(torch.tanh(self.a(x)))) * self.scale


class Adapted(nn.Module):
    """A frozen layer with an adapter of low rank."""

    def __init__(self):
        super().__init__()
        self.base = nn.Linear(4, 3).requires_grad_(False)
        self.down, self.up = nn.Linear(4, 2, bias=False), nn.Linear(2, 3, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        return self.base(x) + self.up(self.down(x))


class Complex(nn.Module):
    """A Fourier layer with complex weights."""

    def __init__(self):
        super().__init__()
        self.first, self.head = nn.Linear(4, 4), nn.Linear(4, 2)
        self.modes = nn.Parameter(torch.complex(torch.randn(3), torch.randn(3)))

    def forward(self, x: Tensor) -> Tensor:
        return self.head(torch.fft.irfft(torch.fft.rfft(torch.tanh(self.first(x))) * self.modes, n=4))


class MixedPrecision(nn.Module):
    """A head in another precision than the body, and an integer buffer."""

    def __init__(self):
        super().__init__()
        self.body, self.head = nn.Linear(4, 6), nn.Linear(6, 2).double()
        self.register_buffer("order", torch.tensor([3, 1, 0, 2]))

    def forward(self, x: Tensor) -> Tensor:
        return self.head(torch.tanh(self.body(x[:, self.order])).double())


CASES = [
    Case("weight_norm", lambda: pair(parametrizations.weight_norm(nn.Linear(4, 6))), randn(6, 4)),
    Case("weight_norm, old", lambda: old_norm("weight_norm"), randn(6, 4)),
    Case(
        "spectral_norm",
        lambda: pair(parametrizations.spectral_norm(nn.Linear(4, 6))),
        randn(6, 4),
        random=True,
        refused={"*": "spectral_norm", "partly generated": None},
    ),
    Case(
        "spectral_norm, old",
        lambda: old_norm("spectral_norm"),
        randn(6, 4),
        random=True,
        refused={"*": "spectral_norm", "partly generated": None},
    ),
    Case("orthogonal", lambda: pair(parametrizations.orthogonal(nn.Linear(4, 6))), randn(6, 4)),
    Case("parametrization by hand", symmetric, randn(6, 4)),
    Case("buffer assigned", lambda: AssignedBuffer(False), lambda: torch.randn(6, 4) + 2, random=True),
    Case("buffer changed in place", lambda: AssignedBuffer(True), lambda: torch.randn(6, 4) + 2, random=True),
    Case("parameters in a Python list", PythonList, randn(6, 4)),
    Case("parameter under a hidden name", Cached, randn(6, 4)),
    Case("layers in a Python list", HiddenLayers, randn(6, 4), refused={"*": "did not register"}),
    Case("function that holds a layer", Closure, randn(6, 4), refused={"*": "a function holds"}),
    Case("method of a layer, kept", Bound, randn(6, 4)),
    Case("parameters with strides", Strided, randn(6, 4)),
    Case("ParameterList, ParameterDict", Collections, randn(6, 4)),
    Case("shared layers and parameters", Shared, randn(6, 4)),
    Case("frozen layer with an adapter", Adapted, randn(6, 4)),
    Case("complex parameters", Complex, randn(6, 4)),
    Case("two precisions", MixedPrecision, randn(6, 4)),
    Case("lazy layers", lambda: nn.Sequential(nn.LazyLinear(3)), randn(6, 4), refused={"*": "uninitialized"}),
]
