"""The heads of a hypernetwork, which are nearly all of it, in a quarter of the bytes.

    W_ij ~ s_i q_ij,     q_ij = round(W_ij / s_i) in -127 ... 127,     s_i = max_j |W_ij| / 127

A row of ``W`` makes one generated weight, so each row has its own scale ``s_i``. Weights are stored as ``q``, and
products are taken in the precision of the features: generated weights are rounded by at most ``s_i / 2`` per feature.
"""

from __future__ import annotations

import copy

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from hyperfront.errors import HyperfrontError
from hyperfront.errors.signatures import checked
from hyperfront.model import ParetoModel

LEVELS = 127


class Int8Linear(nn.Module):
    """``features [..., hidden] -> [..., n]``, equal to the original layer up to rounding.

    >>> layer = nn.Linear(4, 3)
    >>> (Int8Linear(layer)(torch.ones(1, 4)) - layer(torch.ones(1, 4))).abs().max() < 0.01
    tensor(True)
    """

    weight: Tensor
    scale: Tensor
    bias: Tensor | None

    def __init__(self, layer: nn.Linear):
        super().__init__()
        weight = layer.weight.detach()
        scale = weight.abs().amax(1) / LEVELS
        levels = (weight / torch.where(scale > 0, scale, 1)[:, None]).round()
        self.register_buffer("weight", levels.to(torch.int8))
        self.register_buffer("scale", scale)
        self.register_buffer("bias", None if layer.bias is None else layer.bias.detach().clone())

    def forward(self, features: Tensor) -> Tensor:
        product = F.linear(features, self.weight.to(features.dtype)) * self.scale
        return product if self.bias is None else product + self.bias


@checked
def int8(model: ParetoModel) -> ParetoModel:
    """Copy the model with the heads of its hypernetwork in int8. The copy cannot be trained."""
    heads = getattr(model.hypernet, "heads", None)
    if not isinstance(heads, nn.Linear):
        raise HyperfrontError(
            "the hypernetwork has no heads to be stored as int8",
            got=f"the hypernetwork {model.hypernet.kind!r}",
            expected="one of the kinds mlp, chunked",
        )
    made = copy.deepcopy(model)
    made.hypernet.heads = Int8Linear(heads)
    return made.eval()
