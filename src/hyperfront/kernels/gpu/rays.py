"""The dimension of rays, which every program has; ``torch.vmap`` adds rays to it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor


def merged(tensor: Tensor, dim: int | None, count: int) -> Tensor:
    """Merge the vmapped dimension into the dimension of rays."""
    tensor = tensor.expand(count, *tensor.shape) if dim is None else tensor.movedim(dim, 0)
    return tensor.flatten(0, 1)


def merged_unless_shared(tensor: Tensor, dim: int | None, count: int) -> Tensor:
    """Merge the vmapped dimension into the dimension of rays, but keep a single row that all rays share."""
    return tensor if dim is None and len(tensor) == 1 else merged(tensor, dim, count)


def vmap_gradients(gradients: Callable[..., tuple], count: int, dims: tuple, *args: Any) -> tuple[tuple, tuple]:
    """Compute ``gradients(g [J, R, ...], x, weight, y, *options)`` under vmap: several cotangents of the same networks
    in one launch, as in a training step, and everything else one after the other."""
    if dims[1:] == (None,) * (len(dims) - 1):
        found = gradients(args[0].movedim(dims[0], 0).flatten(0, 1), *args[1:])
        found = tuple(None if part is None else part.unflatten(0, (count, -1)) for part in found)
    else:
        each = [[a if dim is None else a.select(dim, i) for a, dim in zip(args, dims)] for i in range(count)]
        found = zip(*(gradients(*parts) for parts in each))
        found = tuple(None if parts[0] is None else torch.stack(parts) for parts in found)
    return found, tuple(None if part is None else 0 for part in found)
