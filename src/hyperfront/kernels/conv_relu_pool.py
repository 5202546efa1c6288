"""Convolution, ReLU and 2 x 2 max pooling in one operation, by the fastest code for device and shape."""

from __future__ import annotations

from torch import Tensor
from torch.nn import functional as F

from hyperfront.kernels import conv_relu_pool_cpu, conv_relu_pool_patches, fused, on_gpu


def conv_relu_pool(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """Compute ``max_pool2d(relu(conv2d(x, weight, bias)), 2)`` of ``x [B, C, H, W]``, ``weight [O, C, k, l]`` and
    ``bias [O]``.

    It is differentiable, also under ``torch.vmap``, and equal to :func:`reference` up to rounding. The reference itself
    runs where no faster code exists, and in ``torch.export``.

    >>> import torch
    >>> x, weight, bias = torch.ones(1, 1, 6, 6), torch.ones(2, 1, 3, 3), torch.tensor([0.0, -20.0])
    >>> conv_relu_pool(x, weight, bias)[0, :, 0, 0]
    tensor([9., 0.])
    """
    if on_gpu(x, weight, bias):
        from hyperfront.kernels.gpu.conv_relu_pool import conv_relu_pool_on_gpu, pays  # needs CUDA

        if pays(x, weight):
            return conv_relu_pool_on_gpu(x, weight, bias)
    if not fused():
        return reference(x, weight, bias)
    if conv_relu_pool_patches.pays(x, weight, bias):
        return conv_relu_pool_patches.conv_relu_pool(x, weight, bias)
    if conv_relu_pool_cpu.pays(x, weight, bias):
        return conv_relu_pool_cpu.conv_relu_pool(x, weight, bias)
    return reference(x, weight, bias)


def reference(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """Compute the operation by its definition."""
    return F.max_pool2d(F.relu(F.conv2d(x, weight, bias)), 2)
