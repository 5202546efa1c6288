"""Layers made of the fused operations."""

from __future__ import annotations

import torch.nn.functional as F
from torch import Tensor, nn

from hyperfront.kernels import on_gpu


class ConvReluPool(nn.Module):
    """A convolution without padding, a ReLU and 2 x 2 max pooling, in one operation."""

    def __init__(self, channels: int, filters: int, size: int):
        super().__init__()
        made = nn.Conv2d(channels, filters, size)
        self.weight, self.bias = made.weight, made.bias

    def forward(self, x: Tensor) -> Tensor:
        if on_gpu(x, self.weight):
            from hyperfront.kernels.conv_relu_pool_cuda import conv_relu_pool_cuda

            return conv_relu_pool_cuda(x, self.weight, self.bias)
        return F.max_pool2d(F.relu(F.conv2d(x, self.weight, self.bias)), 2)


def cross_entropy(logits: Tensor, labels: Tensor) -> Tensor:
    if on_gpu(logits):
        from hyperfront.kernels.cross_entropy_cuda import cross_entropy_cuda

        return cross_entropy_cuda(logits, labels)
    return F.cross_entropy(logits, labels)


def linear(x: Tensor, layer: nn.Linear, relu: bool = False) -> Tensor:
    if on_gpu(x, layer.weight):
        from hyperfront.kernels.linear_cuda import linear_cuda

        return linear_cuda(x, layer.weight, layer.bias, relu)
    y = layer(x)
    return F.relu(y) if relu else y
