"""Replace: ``theta`` holds the tensors end to end; a complex number takes two places, real and imaginary part."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from hyperfront.model.assemblies.base import Assembly, Part


class Replace(Assembly):
    """Generates every chosen parameter that requires gradients."""

    kind, takes, base = "replace", "a parameter with requires_grad", None

    def __init__(self, module: nn.Module, chosen: Sequence[str]):
        parameters = {name: p for name, p in module.named_parameters() if name in set(chosen) and p.requires_grad}
        self.names = tuple(parameters)
        self._complex = [p.is_complex() for p in parameters.values()]
        self.parts = tuple(Part(name, (*p.shape, *[2] * p.is_complex())) for name, p in parameters.items())

    def start(self, module: nn.Module) -> Tensor:
        values = dict(module.named_parameters())
        found = (values[name].detach() for name in self.names)
        return torch.cat([(torch.view_as_real(p) if p.is_complex() else p).flatten().float() for p in found])

    def assemble(self, parts: Sequence[Tensor], shared: dict[str, Tensor]) -> dict[str, Tensor]:
        pairs = zip(parts, self._complex, strict=True)
        return dict(zip(self.names, (torch.complex(*part.unbind(-1)) if flag else part for part, flag in pairs)))

    def describe(self) -> str:
        return f"weights in {len(self.names)} tensor(s)"
