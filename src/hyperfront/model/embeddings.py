"""Embeddings with sparse gradients: they become dense, since the gradient of ``theta`` is dense."""

from __future__ import annotations

from torch import nn


def without_sparse_gradients(module: nn.Module) -> list[str]:
    """Switch off the sparse gradients of embeddings, and return the names of layers that had them."""
    found = []
    for name, layer in module.named_modules():
        if isinstance(layer, nn.Embedding | nn.EmbeddingBag) and layer.sparse:
            layer.sparse = False
            found.append(name)
    return found
