"""The dimension of the rays, which every program has and ``torch.vmap`` adds to."""

from __future__ import annotations

from torch import Tensor


def merged(tensor: Tensor, dim: int | None, count: int) -> Tensor:
    """The vmapped dimension merged into that of the rays."""
    tensor = tensor.expand(count, *tensor.shape) if dim is None else tensor.movedim(dim, 0)
    return tensor.flatten(0, 1)
