"""Embeddings whose options do not go together with weights that are generated."""

from __future__ import annotations

from collections.abc import Collection

from torch import nn

from hyperfront.errors import TargetError


def without_sparse_gradients(module: nn.Module, generated: Collection[str]) -> list[str]:
    """Switch off sparse gradients, which end in the dense ones of ``theta``; returns the layers that had them.

    An embedding that rescales its ``generated`` weight in every call is an error.
    """
    made = {id(p) for name, p in module.named_parameters() if name in generated}
    found = []
    for name, layer in module.named_modules():
        if not isinstance(layer, nn.Embedding | nn.EmbeddingBag):
            continue
        if layer.max_norm is not None and id(layer.weight) in made:
            raise TargetError(
                "an embedding with max_norm changes its weight in every call, and a generated weight is not its own",
                got=f"{name or type(layer).__name__}: max_norm = {layer.max_norm}",
                fix="max_norm=None, and rescale in forward; or leave the layer out with generate=",
            )
        if layer.sparse:
            layer.sparse = False
            found.append(name)
    return found
