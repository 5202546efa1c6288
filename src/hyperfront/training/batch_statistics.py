"""BatchNorm over the rows of all ranks, and the sum over ranks that autograd can differentiate."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch import distributed as dist
from torch.nn.modules.batchnorm import _BatchNorm

from hyperfront.model.normalization import Normalization
from hyperfront.training import ranks


class Summed(torch.autograd.Function):
    """The sum of a tensor over the ranks.

    With ``L_q`` the loss that rank ``q`` computes from the sum, the gradient that rank ``r`` needs for the sum of all
    ``L_q`` is ``sum_q dL_q / dsum``: the backward pass is a sum over the ranks as well.
    """

    @staticmethod
    def forward(x: Tensor) -> Tensor:
        total = x.detach().clone(memory_format=torch.contiguous_format)
        with ranks.connected():
            dist.all_reduce(total)
        return total

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple, output: Tensor) -> None:
        pass

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Any:  # pyrefly: ignore[bad-override]
        return Summed.apply(gradients[0])

    @staticmethod
    def vmap(info: Any, in_dims: tuple, *args: Tensor) -> tuple[Tensor, int | None]:
        return Summed.apply(*args), in_dims[0]


@contextmanager
def over_all_rows(normalization: Normalization) -> Iterator[None]:
    """Let the BatchNorm layers that use the batch use the rows of all ranks within the ``with`` block."""
    layers = [normalization.layers[name] for name in normalization.adaptive]
    for layer in layers:
        vars(layer)["forward"] = partial(normalized, layer)
    try:
        yield
    finally:
        for layer in layers:
            vars(layer).pop("forward", None)


def normalized(layer: _BatchNorm, x: Tensor) -> Tensor:
    """Normalize ``x [B, C, ...]`` by mean and variance over the rows of all ranks.

    From count ``n_r``, mean ``u_r`` and variance ``v_r`` of each rank, as in the parallel algorithm of Chan, Golub and
    LeVeque: ``u = sum_r n_r u_r / n`` and ``v = sum_r n_r (v_r + (u_r - u)^2) / n``. One sum over the ranks moves them.
    """
    if not layer.training:
        return type(layer).forward(layer, x)
    layer._check_input_dim(x)
    wide = x.float() if x.dtype in (torch.bfloat16, torch.float16) else x
    variance, mean = torch.var_mean(wide, [d for d in range(x.ndim) if d != 1], correction=0)
    own = torch.cat([mean, variance, mean.new_full((1,), x.numel() // x.shape[1])])
    slot = torch.zeros(dist.get_world_size(), dtype=own.dtype, device=own.device)
    slot[dist.get_rank()] = 1
    means, variances, counts = Summed.apply(slot[:, None] * own).split([len(mean), len(mean), 1], dim=1)
    shares = counts / counts.sum()
    mean = (shares * means).sum(0)
    variance = (shares * (variances + (means - mean).square())).sum(0)
    shape = [1, -1] + [1] * (x.ndim - 2)
    scale = (variance + layer.eps).rsqrt()
    scale = scale if layer.weight is None else scale * layer.weight
    found = (wide - mean.view(shape)) * scale.view(shape)
    return (found if layer.bias is None else found + layer.bias.view(shape)).to(x.dtype)
