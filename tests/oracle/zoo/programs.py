"""What ``forward`` does: branches, recomputation, derivatives, random numbers, unusual inputs and outputs."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.func import functional_call, jacrev, vmap
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint, checkpoint_sequential

from tests.oracle.case import NO_VMAP, Case
from tests.oracle.zoo.layers import between, randn


class Recomputing(nn.Module):
    """A module that recomputes its own activations in the backward pass."""

    def __init__(self, reentrant: bool, dropout: float = 0.0):
        super().__init__()
        self.reentrant, self.first = reentrant, nn.Linear(4, 6)
        self.body = nn.Sequential(nn.Linear(6, 6), nn.Tanh(), nn.Dropout(dropout), nn.Linear(6, 6), nn.Tanh())
        self.head = nn.Linear(6, 2)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(checkpoint(self.body, torch.tanh(self.first(x)), use_reentrant=self.reentrant))


class RecomputingParts(nn.Module):
    """Checkpointing in segments."""

    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(*(nn.Sequential(nn.Linear(4, 4), nn.Tanh()) for _ in range(4)))

    def forward(self, x: Tensor) -> Tensor:
        return checkpoint_sequential(self.body, 2, x, use_reentrant=False)


class Again(torch.autograd.Function):
    """Keeps no activations: its backward pass runs the layer once more, as reversible networks do."""

    @staticmethod
    def forward(ctx: Any, layer: nn.Module, x: Tensor, *weights: Tensor) -> Tensor:
        ctx.layer, ctx.count = layer, len(weights)
        ctx.save_for_backward(x)
        with torch.no_grad():
            return layer(x)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        x = ctx.saved_tensors[0].detach().requires_grad_()
        with torch.enable_grad():
            y = ctx.layer(x)
            found = torch.autograd.grad(y, [x, ctx.layer.weight, ctx.layer.bias], gradient, retain_graph=True)
        return (None, *found)


class Reversible(nn.Module):
    """A layer whose backward pass is written by hand and calls the layer again."""

    def __init__(self):
        super().__init__()
        self.first, self.inner, self.head = nn.Linear(4, 6), nn.Linear(6, 6), nn.Linear(6, 2)

    def forward(self, x: Tensor) -> Tensor:
        hidden = torch.tanh(self.first(x))
        return self.head(torch.tanh(Again.apply(self.inner, hidden, self.inner.weight, self.inner.bias)))


class Rounded(torch.autograd.Function):
    """Rounds, and lets the gradient through."""

    generate_vmap_rule = True

    @staticmethod
    def forward(x: Tensor) -> Tensor:
        return (4 * x).round() / 4

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple, output: Tensor) -> None:
        pass

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        return gradient


class Quantized(nn.Module):
    """Rounded weights, trained straight through."""

    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(4, 6), nn.Linear(6, 2)

    def forward(self, x: Tensor) -> Tensor:
        return self.b(torch.tanh(F.linear(x, Rounded.apply(self.a.weight), self.a.bias)))


class PINN(nn.Module):
    """A solution of a differential equation and its derivative, by autograd in ``forward``."""

    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(1, 6), nn.Tanh(), nn.Linear(6, 1))

    def forward(self, t: Tensor) -> tuple[Tensor, Tensor]:
        with torch.enable_grad():
            t = t.detach().requires_grad_()
            u = self.body(t)
            (slope,) = torch.autograd.grad(u.sum(), t, create_graph=True)
        return u, slope


class Jacobian(nn.Module):
    """Derivatives by ``torch.func`` in ``forward``."""

    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(2, 4), nn.Tanh(), nn.Linear(4, 2))

    def forward(self, x: Tensor) -> Tensor:
        return vmap(jacrev(self.body))(x)


class Inner(nn.Module):
    """A hypernetwork: it writes the weights of its own inner layer."""

    def __init__(self):
        super().__init__()
        self.writer, self.inner = nn.Linear(2, 4 * 3 + 3), nn.Linear(4, 3)

    def forward(self, x: Tensor, z: Tensor) -> Tensor:
        weight, bias = self.writer(z).split([12, 3])
        return functional_call(self.inner, {"weight": weight.view(3, 4), "bias": bias}, (x,)) + self.inner(x)


class Mixture(nn.Module):
    """Experts, all of them weighted or the best one alone, with a loss that balances them."""

    def __init__(self, hard: bool):
        super().__init__()
        self.hard, self.gate = hard, nn.Linear(4, 3)
        self.experts = nn.ModuleList(nn.Sequential(nn.Linear(4, 5), nn.Tanh(), nn.Linear(5, 2)) for _ in range(3))

    def forward(self, x: Tensor) -> dict[str, Tensor]:
        shares = self.gate(x).softmax(-1)
        if self.hard:
            best = shares.argmax(-1)
            output = x.new_zeros(len(x), 2)
            for index, expert in enumerate(self.experts):
                rows = (best == index).nonzero()[:, 0]
                output = output.index_add(0, rows, expert(x[rows]) * shares[rows, index, None])
        else:
            output = sum(expert(x) * shares[:, [index]] for index, expert in enumerate(self.experts))
        return {"output": output, "balance": shares.mean(0).square().sum()}


class DeepSets(nn.Module):
    """A function of sets."""

    def __init__(self):
        super().__init__()
        self.each, self.whole = nn.Sequential(nn.Linear(2, 5), nn.ReLU(), nn.Linear(5, 4)), nn.Linear(4, 2)

    def forward(self, x: Tensor) -> Tensor:
        return self.whole(self.each(x).sum(1))


class Graph(nn.Module):
    """Messages along the edges of one graph, added up at their ends."""

    def __init__(self):
        super().__init__()
        self.send, self.keep, self.head = nn.Linear(3, 5), nn.Linear(3, 5), nn.Linear(5, 2)

    def forward(self, nodes: Tensor, edges: Tensor) -> Tensor:
        start, end = edges
        received = torch.zeros_like(self.keep(nodes)).index_add(0, end, self.send(nodes)[start])
        return self.head(torch.relu(self.keep(nodes) + received))


class Flow(nn.Module):
    """A coupling layer: the point and the logarithm of the determinant."""

    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(2, 6), nn.Tanh(), nn.Linear(6, 4))

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        kept, changed = x.chunk(2, -1)
        shift, scale = self.net(kept).chunk(2, -1)
        scale = torch.tanh(scale)
        return torch.cat([kept, changed * scale.exp() + shift], -1), scale.sum(-1)


class VAE(nn.Module):
    """Draws in ``forward``."""

    def __init__(self):
        super().__init__()
        self.encode, self.decode = nn.Linear(4, 4), nn.Linear(2, 4)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        mean, spread = self.encode(x).chunk(2, -1)
        return self.decode(mean + spread.exp() * torch.randn_like(mean)), mean.square() + spread.square()


class Equilibrium(nn.Module):
    """A fixed point, found without gradient, and one step from there with it."""

    def __init__(self):
        super().__init__()
        self.inside, self.outside, self.head = nn.Linear(4, 4), nn.Linear(3, 4), nn.Linear(4, 2)

    def forward(self, x: Tensor) -> Tensor:
        def step(z: Tensor) -> Tensor:
            return torch.tanh(0.5 * self.inside(z) + self.outside(x))

        with torch.no_grad():
            z = x.new_zeros(len(x), 4)
            for _ in range(20):
                z = step(z)
        return self.head(step(z))


class FlowInTime(nn.Module):
    """An ordinary differential equation in a few steps."""

    def __init__(self):
        super().__init__()
        self.speed = nn.Sequential(nn.Linear(3, 6), nn.Tanh(), nn.Linear(6, 2))

    def forward(self, x: Tensor) -> Tensor:
        for t in torch.linspace(0, 1, 5, dtype=x.dtype, device=x.device):
            x = x + 0.2 * self.speed(torch.cat([x, t.expand(len(x), 1)], -1))
        return x


class Kernel(nn.Module):
    """A Gaussian process with learned features, by a Cholesky factor."""

    def __init__(self):
        super().__init__()
        self.features, self.scale = nn.Linear(3, 4), nn.Parameter(torch.zeros(4))
        self.anchors, self.values = nn.Parameter(torch.randn(5, 4)), nn.Parameter(torch.randn(5, 1))

    def forward(self, x: Tensor) -> Tensor:
        def similar(a: Tensor, b: Tensor) -> Tensor:
            return (-((a[:, None] - b) * self.scale.exp()).square().sum(-1)).exp()

        inner = similar(self.anchors, self.anchors) + 0.1 * torch.eye(5, dtype=x.dtype, device=x.device)
        return similar(torch.tanh(self.features(x)), self.anchors) @ torch.cholesky_solve(
            self.values, torch.linalg.cholesky(inner)
        )


class Branching(nn.Module):
    """A branch that depends on the weights."""

    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(4, 6), nn.Linear(6, 2)

    def forward(self, x: Tensor) -> Tensor:
        hidden = self.a(x)
        return self.b(hidden.tanh() if self.a.weight.sum() > 0 else hidden.sin())


class Skipping(nn.Module):
    """Layers that are skipped at random while training."""

    def __init__(self):
        super().__init__()
        self.layers, self.head = nn.ModuleList(nn.Linear(4, 4) for _ in range(3)), nn.Linear(4, 2)

    def forward(self, x: Tensor) -> Tensor:
        for layer in self.layers:
            keep = (torch.rand(len(x), 1, device=x.device) < 0.7).to(x.dtype) if self.training else 0.7
            x = x + keep * torch.tanh(layer(x))
        return self.head(x)


class Keywords(nn.Module):
    """Keyword arguments, one of them no tensor, and a nested dict as output."""

    def __init__(self):
        super().__init__()
        self.left, self.right = nn.Linear(3, 4), nn.Linear(2, 4)

    def forward(self, *, a: Tensor, b: Tensor, mode: str = "sum") -> dict[str, Any]:
        hidden = torch.tanh(self.left(a) + self.right(b))
        return {"head": hidden.sum(-1) if mode == "sum" else hidden, "more": {"hidden": [hidden]}}


class Point(NamedTuple):
    """An output with names."""

    mean: Tensor
    spread: Tensor


@dataclass
class Belief:
    """An output of a kind of its own."""

    mean: Tensor
    spread: Tensor


class Believing(nn.Module):
    """A mean and a spread, in a named tuple or a dataclass."""

    def __init__(self, kind: type):
        super().__init__()
        self.kind, self.both = kind, nn.Sequential(nn.Linear(4, 6), nn.Tanh(), nn.Linear(6, 2))

    def forward(self, x: Tensor) -> Any:
        mean, spread = self.both(x).unbind(-1)
        return self.kind(mean, F.softplus(spread))


class Storing(nn.Module):
    """A module that keeps an activation on itself."""

    def __init__(self):
        super().__init__()
        self.body, self.seen = nn.Sequential(nn.Linear(4, 6), nn.Tanh(), nn.Linear(6, 2)), None

    def forward(self, x: Tensor) -> Tensor:
        y = self.body(x)
        self.seen = y.square().mean()
        return y


class Hooked(nn.Module):
    """Hooks that change what goes in and out."""

    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(4, 6), nn.Linear(6, 2)
        self.a.register_forward_hook(lambda _, args, output: torch.tanh(output) * 1.5)
        self.b.register_forward_pre_hook(lambda _, args: (args[0] + 0.1,))

    def forward(self, x: Tensor) -> Tensor:
        return self.b(self.a(x))


class Codebook(nn.Module):
    """A quantizer whose codes move by averages, in place."""

    def __init__(self):
        super().__init__()
        self.encode, self.decode = nn.Linear(4, 2), nn.Linear(2, 4)
        self.register_buffer("codes", torch.randn(5, 2))

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        z = self.encode(x)
        nearest = torch.cdist(z.detach(), self.codes).argmin(-1)
        code = self.codes[nearest].clone()
        if self.training:
            with torch.no_grad():
                self.codes.data.index_add_(0, nearest, 0.01 * (z - code))
        return self.decode(z + (code - z).detach()), (z - code).square()


class LowRankAttention(nn.Module):
    """Einsum over several axes, with a cached mask."""

    def __init__(self):
        super().__init__()
        self.q, self.k = nn.Parameter(torch.randn(2, 4, 3) / 2), nn.Parameter(torch.randn(2, 4, 3) / 2)
        self.out = nn.Linear(4, 2)

    @functools.lru_cache(maxsize=4)  # noqa: B019 - as users write it
    def mask(self, length: int) -> Tensor:
        return torch.ones(length, length).tril()

    def forward(self, x: Tensor) -> Tensor:
        scores = torch.einsum("bid,hde,hfe,bjf->bhij", x, self.q, self.k, x)
        scores = scores.masked_fill(self.mask(x.shape[1]).to(x.device) == 0, -1e9).softmax(-1)
        return self.out(torch.einsum("bhij,bjd->bid", scores, x))


def scripted() -> nn.Module:
    return torch.jit.script(between(nn.Linear(4, 6), nn.Linear(6, 2), nn.Tanh()))


def traced() -> nn.Module:
    return torch.jit.trace(between(nn.Linear(4, 6), nn.Linear(6, 2), nn.Tanh()), torch.zeros(2, 4))


CASES = [
    Case("checkpoint inside", lambda: Recomputing(False), randn(6, 4), refused=NO_VMAP),
    Case("checkpoint inside, with dropout", lambda: Recomputing(False, 0.3), randn(6, 4), random=True, refused=NO_VMAP),
    Case(
        "checkpoint inside, reentrant",
        lambda: Recomputing(True),
        randn(6, 4),
        refused={"*": "reentrant", "vmap": "", "at(ray)": None, "reload": None},
    ),
    Case("checkpoint in segments", RecomputingParts, randn(6, 4), refused=NO_VMAP),
    Case("backward pass by hand that runs a layer again", Reversible, randn(6, 4), refused=NO_VMAP),
    Case("weights rounded straight through", Quantized, randn(6, 4)),
    Case(
        "derivatives in forward (PINN)",
        PINN,
        randn(6, 1),
        refused=NO_VMAP | {"low rank": "no parameter of the target is generated"},
    ),
    Case("derivatives by torch.func", Jacobian, randn(6, 2)),
    Case("hypernetwork inside", Inner, lambda: (torch.randn(6, 4), torch.randn(2))),
    Case("mixture of experts", lambda: Mixture(False), randn(6, 4)),
    Case("mixture of experts, the best one", lambda: Mixture(True), randn(6, 4), refused=NO_VMAP),
    Case("DeepSets", DeepSets, randn(6, 3, 2)),
    Case("graph by index_add", Graph, lambda: (torch.randn(6, 3), torch.randint(6, (2, 9)))),
    Case("normalizing flow", Flow, randn(6, 4)),
    Case("VAE", VAE, randn(6, 4), random=True, exempt={"vmap": "each ray draws its own numbers"}),
    Case("deep equilibrium", Equilibrium, randn(6, 3)),
    Case("neural ODE", FlowInTime, randn(6, 2), compiled=True),
    Case("Gaussian process", Kernel, randn(6, 3)),
    Case("branch on the weights", Branching, randn(6, 4), refused=NO_VMAP),
    Case("stochastic depth", Skipping, randn(6, 4), random=True),
    Case(
        "keyword arguments, nested dict",
        Keywords,
        lambda: {"a": torch.randn(6, 3), "b": torch.randn(6, 2)},
        compiled=True,
    ),
    Case("named tuple as output", lambda: Believing(Point), randn(6, 4)),
    Case("dataclass as output", lambda: Believing(Belief), randn(6, 4)),
    Case("activation kept on the module", Storing, randn(6, 4)),
    Case("hooks", Hooked, randn(6, 4)),
    Case(
        "codebook moved in place",
        Codebook,
        randn(6, 4),
        random=True,
        exempt={"checkpointing": "to run the module again moves the codebook again"},
    ),
    Case("einsum with a cached mask", LowRankAttention, randn(4, 3, 4)),
    Case("torch.jit.script", scripted, randn(6, 4), refused={"deepcopy": "neither copied"}),
    Case("torch.jit.trace", traced, randn(6, 4), refused={"deepcopy": "neither copied"}),
]
