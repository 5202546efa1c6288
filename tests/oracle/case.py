"""A case: a module, what it is called on, its losses, and what is expected of it."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, fields, is_dataclass
from typing import Any

import torch
from torch import Tensor, nn

NO_VMAP = {"vmap": ""}
"""What is expected of modules that vmap cannot batch: a refusal with PyTorch's words."""
Losses = Callable[[Any], tuple[Tensor, ...]]


def leaves(output: Any) -> list[Tensor]:
    """All tensors in an output that real numbers can be made of, dataclasses included."""
    if isinstance(output, Tensor):
        real = torch.view_as_real(output) if output.is_complex() else output
        return [real] if real.is_floating_point() else []
    if isinstance(output, Mapping):
        return leaves(list(output.values()))
    if is_dataclass(output):
        return leaves([getattr(output, each.name) for each in fields(output)])
    return [tensor for part in output for tensor in leaves(part)] if isinstance(output, tuple | list) else []


def two_losses(output: Any) -> tuple[Tensor, Tensor]:
    """Two positive losses that every entry of every output moves, each in a direction of its own."""
    found = [tensor.flatten() for tensor in leaves(output)]
    waves = [torch.arange(len(tensor), device=tensor.device, dtype=tensor.dtype) for tensor in found]
    first = [(tensor - wave.cos()).square().mean() for tensor, wave in zip(found, waves)]
    second = [(tensor - 1 - wave.sin()).square().mean() for tensor, wave in zip(found, waves)]
    return torch.stack(first).sum(), torch.stack(second).sum()


@dataclass(frozen=True)
class Case:
    """One module of the zoo. ``make`` and ``inputs`` are called in the precision of the comparison."""

    name: str
    make: Callable[[], nn.Module]
    inputs: Callable[[], Any]
    """What the module takes: one tensor, a tuple of positional or a dict of keyword arguments."""
    losses: Losses = two_losses
    needs: Sequence[str] = ()
    """Packages that must be installed."""
    refused: Mapping[str, str | None] = field(default_factory=dict)
    """Words of the error that is expected, by the name of a feature, or under ``"*"`` for all others; None for none."""
    exempt: Mapping[str, str] = field(default_factory=dict)
    """Features that do not apply, by name, with the reason."""
    random: bool = False
    """Whether a call draws random numbers, or changes what the next call computes."""
    dtype: torch.dtype = torch.float64
    """The precision of most comparisons."""
    precision: float = 1e-9
    """How far float64 may be off: more where the module itself computes in float32."""
    compiled: bool = False
    """Whether this is one of the few that ``torch.compile`` is tried on."""
    slow: bool = False

    @property
    def missing(self) -> list[str]:
        """Packages that are needed and not installed."""
        return [name for name in self.needs if importlib.util.find_spec(name) is None]

    def build(self, dtype: torch.dtype, device: str) -> nn.Module:
        """The module, every time with the same numbers."""
        with precision(dtype):
            torch.manual_seed(0)
            return self.make().to(device)

    def batch(self, dtype: torch.dtype, device: str) -> Any:
        """What to call it on, every time with the same numbers."""
        with precision(dtype):
            torch.manual_seed(1)
            return moved(self.inputs(), device)

    def expects(self, feature: str) -> str | None:
        """Words of the refusal that is expected under this feature."""
        return self.refused.get(feature, self.refused.get("*"))


def moved(x: Any, device: str) -> Any:
    """Tensors of arguments, there."""
    if isinstance(x, Tensor):
        return x.to(device)
    if isinstance(x, dict):
        return {name: moved(value, device) for name, value in x.items()}
    return type(x)(moved(value, device) for value in x) if isinstance(x, tuple | list) else x


def call(module: Callable[..., Any], x: Any) -> Any:
    """The module on ``x``, as hyperfront says that it is called."""
    if isinstance(x, dict):
        return module(**x)
    return module(*x) if isinstance(x, tuple) else module(x)


@contextmanager
def precision(dtype: torch.dtype):
    """``dtype`` as the precision of everything that is made or computed inside without saying one."""
    before = torch.get_default_dtype()
    torch.set_default_dtype(dtype)
    try:
        yield
    finally:
        torch.set_default_dtype(before)
