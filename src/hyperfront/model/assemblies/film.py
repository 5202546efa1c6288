"""Film: ``theta`` holds a scale and a shift for every feature of chosen layers; all rays share the layers themselves.

    y' = s(r) y + t(r)

as in FiLM (Perez et al., 2018) and YOTO (Dosovitskiy & Djolonga, 2020, "You only train once"). A layer that ends in an
affine map ``y = w x + b`` absorbs both: ``w' = s w`` and ``b' = s b + t``. So no activation needs a hook, and the plain
module of a ray is exact. A layer without a bias is only scaled.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _NormBase
from torch.nn.modules.conv import _ConvNd, _ConvTransposeNd

from hyperfront.model.assemblies.base import Assembly, Part
from hyperfront.model.roles import Rest

NORMALIZATIONS = (_NormBase, nn.LayerNorm, nn.GroupNorm, nn.RMSNorm)
LINEAR = (nn.Linear, _ConvNd)


class _Modulated(NamedTuple):
    weight: str
    bias: str | None
    features: tuple[int, ...]
    """The shape of scale and shift."""
    unfolded: tuple[int, ...]
    """A view of the weight that broadcasts with features of the shape ``along``."""
    along: tuple[int, ...]


class Film(Assembly):
    """Modulates the normalization layers whose weight was chosen; if there are none, linear layers and convolutions."""

    kind, takes = "film", "the weight of a normalization layer, linear layer or convolution that is not tied"

    def __init__(self, module: nn.Module, chosen: Sequence[str], *, base: Rest = "train"):
        self.base = base
        uses = Counter(id(p) for layer in module.modules() for p in layer.parameters(recurse=False))
        # a scale would reach the other use of a tied weight
        own = {name for name, p in module.named_parameters() if uses[id(p)] == 1 and p.is_floating_point()}
        layers = {
            name: layer
            for name, layer in module.named_modules()
            if isinstance(layer, NORMALIZATIONS + LINEAR) and _join(name, "weight") in own.intersection(chosen)
        }
        norms = {name: layer for name, layer in layers.items() if isinstance(layer, NORMALIZATIONS)}
        self._layers = [_modulated(name, layer, own) for name, layer in (norms or layers).items()]
        parts: list[Part] = []
        for layer in self._layers:
            parts.append(Part(f"{layer.weight}:scale", layer.features))
            if layer.bias:
                parts.append(Part(f"{layer.bias}:shift", layer.features))
        self.parts = tuple(parts)
        self.names = tuple(name for layer in self._layers for name in (layer.weight, layer.bias) if name)

    def options(self) -> dict[str, Any]:
        return {"base": self.base}

    def start(self, module: nn.Module) -> Tensor:
        return torch.cat([torch.full((p.size,), 1.0 if p.name.endswith(":scale") else 0.0) for p in self.parts])

    def assemble(self, parts: Sequence[Tensor], shared: dict[str, Tensor]) -> dict[str, Tensor]:
        made, rest = {}, iter(parts)
        for layer in self._layers:
            weight = shared[layer.weight]
            scale = next(rest).to(weight)
            made[layer.weight] = (scale.view(layer.along) * weight.view(layer.unfolded)).view(weight.shape)
            if layer.bias:
                made[layer.bias] = scale * shared[layer.bias] + next(rest).to(weight)
        return made

    def describe(self) -> str:
        return f"scales and shifts of the features of {len(self._layers)} layer(s)"


def _modulated(name: str, layer: nn.Module, own: set[str]) -> _Modulated:
    weight, bias = _join(name, "weight"), _join(name, "bias")
    shape = tuple(layer.get_parameter("weight").shape)
    if isinstance(layer, NORMALIZATIONS):
        features, unfolded, along = shape, shape, shape
    elif isinstance(layer, _ConvTransposeNd):  # its kernel is [in, out / groups, ...]
        groups, (inputs, outputs, *kernel) = layer.groups, shape
        features = (groups * outputs,)
        unfolded = (groups, inputs // groups, outputs, *kernel)
        along = (groups, 1, outputs, *(1 for _ in kernel))
    else:
        features, unfolded, along = shape[:1], shape, (shape[0], *(1 for _ in shape[1:]))
    return _Modulated(weight, bias if bias in own else None, features, unfolded, along)


def _join(layer: str, tensor: str) -> str:
    return f"{layer}.{tensor}" if layer else tensor
