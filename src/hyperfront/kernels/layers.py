"""Layers and losses with fused operations, for the targets of the zoo."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from hyperfront.kernels import on_gpu
from hyperfront.kernels.conv_relu_pool import conv_relu_pool


class ConvReluPool(nn.Module):
    """A convolution without padding, a ReLU and 2 x 2 max pooling, in one operation, with ``nn.Conv2d``'s
    parameters."""

    bias: nn.Parameter

    def __init__(self, channels: int, filters: int, size: int):
        super().__init__()
        made = nn.Conv2d(channels, filters, size)
        self.weight, self.bias = made.weight, made.bias  # pyrefly: ignore[bad-assignment]

    def forward(self, x: Tensor) -> Tensor:
        return conv_relu_pool(x, self.weight, self.bias)


def linear(x: Tensor, layer: nn.Linear, *, relu: bool = False) -> Tensor:
    """Compute ``layer(x)`` of ``x [B, K]``, followed by a ReLU if ``relu``."""
    if on_gpu(x, layer.weight) and layer.bias is not None:
        from hyperfront.kernels.gpu.linear import linear_on_gpu, pays  # needs CUDA

        if pays(x, layer.weight):
            return linear_on_gpu(x, layer.weight, layer.bias, relu)
    y = layer(x)
    return F.relu(y) if relu else y


def normalized(
    x: Tensor,
    norm: nn.BatchNorm2d,
    slope: Tensor,
    *,
    shortcut: Tensor | None = None,
    keep: Tensor | None = None,
) -> Tensor:
    """Compute ``norm(x [N, C, H, W])``, times ``keep [N, C]``, plus ``shortcut``, followed by a PReLU with ``slope
    [C]``."""
    by_batch = norm.training and not norm.track_running_stats
    if by_batch and torch.is_grad_enabled() and on_gpu(x) and x.dtype == torch.float32:
        from hyperfront.kernels.gpu.normalized import normalized_on_gpu  # needs Triton

        return normalized_on_gpu(x, norm.weight, norm.bias, slope, shortcut, keep, norm.eps)
    y = norm(x)
    y = y if keep is None else y * keep[..., None, None]
    y = y if shortcut is None else y + shortcut
    return F.prelu(y, slope)


def channels_last(x: Tensor) -> Tensor:
    """Store ``x [N, C, H, W]`` with the channels of a pixel side by side, which makes convolutions on a GPU faster.

    ``x.contiguous(memory_format=torch.channels_last)`` does not exist under vmap.
    """
    return x.movedim(1, -1).contiguous().movedim(-1, 1)


def cross_entropy(logits: Tensor, labels: Tensor) -> Tensor:
    """Compute the mean cross entropy of ``logits [B, N]`` and integer ``labels [B]``."""
    if on_gpu(logits) and logits.dtype == torch.float32:
        from hyperfront.kernels.gpu.cross_entropy import cross_entropy_on_gpu  # needs Triton

        return cross_entropy_on_gpu(logits, labels)
    return F.cross_entropy(logits, labels)
