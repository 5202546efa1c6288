"""What modules do beside computing: hooks, state, weights that they write, tensors in odd places."""

from __future__ import annotations

import threading
from collections.abc import Callable

import torch
from torch import Tensor, nn

from tests.helpers import habits
from tests.helpers.habits import KEPT, Net
from tests.oracle.case import NO_VMAP, Case
from tests.oracle.zoo.layers import randn

IN_TRAINING = {"at(ray)": None, "reload": None}
"""What does not happen in evaluation, or without gradients, is not refused there."""


def with_change(change: Callable[[Net], object]) -> Callable[[], nn.Module]:
    """Makes a module to which something was done."""

    def make() -> nn.Module:
        module = Net()
        change(module)
        return module

    return make


def called(kind: type[nn.Module]) -> Callable[[], nn.Module]:
    """Makes a module that was called once."""

    def make() -> nn.Module:
        module = kind()
        module(torch.randn(6, 4))
        return module

    return make


def hooked(module: Net) -> None:
    module.a.register_forward_hook(habits.closing_over(module.b))


class Scaled(Net):
    """Divides by a number that it hands out as extra state."""

    def prepare(self) -> None:
        self.scale: float | Tensor = 3.0

    def get_extra_state(self) -> dict[str, float | Tensor]:
        return {"scale": self.scale}

    def set_extra_state(self, state: dict[str, float | Tensor]) -> None:
        self.scale = state["scale"]

    def first(self, x: Tensor) -> Tensor:
        return self.a(x) / self.scale


def codebook() -> nn.Module:
    module = habits.Codebook()
    module.codes.weight.requires_grad_(False)
    return module


def refused(name: str, make: Callable[[], nn.Module], words: str, **others: str | None) -> Case:
    return Case(name, make, randn(6, 4), refused={"*": words} | others)


CASES = [
    Case("parameter in a deque", lambda: habits.Keeps(*KEPT["deque"]), randn(6, 4)),
    Case("parameter in a dataclass", lambda: habits.Keeps(*KEPT["dataclass in a tuple"]), randn(6, 4)),
    Case("object that is called, with a weight", lambda: habits.Keeps(*KEPT["callable object"]), randn(6, 4)),
    refused("view of a weight, kept", with_change(lambda m: setattr(m, "w", m.a.weight.t())), "share memory"),
    refused("weight on another one's memory", habits.tied_by_memory, "share memory"),
    refused(
        "hook on the gradient of a weight", with_change(lambda m: m.a.weight.register_hook(torch.neg)), "a hook on"
    ),
    Case("hook on the gradient of an activation", habits.Reverses, randn(6, 4), refused={"vmap": "hooks on gradients"}),
    Case("hook on the gradient of a layer", habits.ReversesLayer, randn(6, 4), refused={"vmap": "hooks on gradients"}),
    refused(
        "hook that holds a layer",
        with_change(lambda m: m.a.register_forward_hook(habits.closing_over(m.b))),
        "function",
    ),
    refused("forward replaced by a function", with_change(lambda m: habits.replaced_forward(m.a)), "function holds"),
    Case("frozen BatchNorm", habits.Frozen, randn(6, 4)),
    refused(
        "weight set by the data of the first call",
        habits.Initializes,
        "run the module once",
        **IN_TRAINING | NO_VMAP | {"low rank": None},  # which leaves vectors to be trained directly
    ),
    Case("weight set by the data of a call before", called(habits.Initializes), randn(6, 4)),
    refused("parameter made in the first call", habits.Makes, "makes a parameter"),
    Case("parameter made in a call before", called(habits.Makes), randn(6, 4)),
    refused("weights clamped in place", habits.Clamps, "changes its weights in place", **NO_VMAP),
    refused("inputs changed in place", habits.Overwrites, "changes its inputs"),
    refused("gradients switched off in forward", habits.Switches, "requires_grad_", **IN_TRAINING),
    refused("layer copied in forward", habits.CopiesItself, "copies a layer", **IN_TRAINING, **NO_VMAP),
    refused("weight assigned in forward", habits.Assigns, "assigns a parameter", vmap="hooks on gradients"),
    Case(
        "frozen weight assigned in forward",
        codebook,
        randn(6, 4),
        random=True,
        refused={"low rank": "a parameter that is generated"},
        exempt={"checkpointing": "to run the module again moves the codebook again"},
    ),
    Case(
        "buffer that grows",
        habits.Grows,
        randn(6, 4),
        refused={"vmap": "assigns buffers"},
        exempt={"same seed": "the buffer has grown in between"},
    ),
    Case("extra state", Scaled, randn(6, 4)),
    Case("derivatives by the weights in forward", habits.Adapts, randn(6, 4), refused=NO_VMAP),
    refused("lock", with_change(lambda m: setattr(m, "lock", threading.Lock())), "cannot be copied"),
    refused("parameter of another type", with_change(lambda m: setattr(m, "p", habits.Kind(torch.ones(4)))), "a Kind"),
]
