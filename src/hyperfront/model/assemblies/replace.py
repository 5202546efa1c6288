"""``theta`` is the tensors themselves, laid end to end."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from hyperfront.model.assemblies.base import Assembly, Part


class Replace(Assembly):
    """Every chosen parameter is generated, unless it does not require gradients."""

    kind, takes, base = "replace", "a parameter with requires_grad", None

    def __init__(self, module: nn.Module, chosen: Sequence[str]):
        parameters = {name: p for name, p in module.named_parameters() if name in set(chosen) and p.requires_grad}
        self.names = tuple(parameters)
        self.parts = tuple(Part(name, tuple(p.shape)) for name, p in parameters.items())

    def start(self, module: nn.Module) -> Tensor:
        values = dict(module.named_parameters())
        return torch.cat([values[name].detach().flatten().float() for name in self.names])

    def assemble(self, parts: Sequence[Tensor], shared: dict[str, Tensor]) -> dict[str, Tensor]:
        return dict(zip(self.names, parts, strict=True))

    def describe(self) -> str:
        return f"weights in {len(self.names)} tensor(s)"
