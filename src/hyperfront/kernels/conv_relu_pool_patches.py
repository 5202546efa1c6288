"""On the CPU, for prediction: an image or two for each set of weights, as when every row of a batch has its own ray.

Convolutions of libraries are made for many images and one kernel. For one image, starting them takes longer than the
arithmetic, and several kernels at once run in groups, slowly. A product of matrices has neither problem:

    y = weight [O, C k l]  patches of x [C k l, h w]

and under ``vmap`` it is one batched product for all rays. The patches are ``k l`` times as large as the image, so this
is for few and small images.
"""

from __future__ import annotations

import torch
from torch import Tensor

MOST = 2  # images for each set of weights, by measurement
LARGEST = 2**18  # numbers in their patches: more leave the processor's cache


def pays(x: Tensor, weight: Tensor, bias: Tensor) -> bool:
    """Whether this code is faster for these tensors."""
    known = x.dtype in (torch.float32, torch.float64) and x.dtype == weight.dtype == bias.dtype
    if torch.is_grad_enabled() or x.device.type != "cpu" or not known or x.ndim != 4 or weight.ndim != 4:
        return False
    height, width = x.shape[2] - weight.shape[2] + 1, x.shape[3] - weight.shape[3] + 1
    few = 1 <= len(x) <= MOST and len(x) * weight[0].numel() * height * width <= LARGEST
    return few and min(height, width) > 1


def conv_relu_pool(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """See :mod:`hyperfront.kernels.conv_relu_pool`."""
    (batch, channels, height, width), (count, _, k, l) = x.shape, weight.shape
    h, w = height - k + 1, width - l + 1
    patches = x.unfold(2, k, 1).unfold(3, l, 1).permute(0, 1, 4, 5, 2, 3).reshape(batch, channels * k * l, h * w)
    y = weight.reshape(1, count, -1).expand(batch, -1, -1).bmm(patches).view(batch, count, h, w)
    y = torch.maximum(y[..., 0 : h - 1 : 2, :], y[..., 1::2, :])  # ten times as fast as max_pool2d
    y = torch.maximum(y[..., 0 : w - 1 : 2], y[..., 1::2])
    return (y + bias[:, None, None]).relu_()  # neither changes which output of a window is the largest
