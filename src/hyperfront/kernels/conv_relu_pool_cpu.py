"""On the CPU: the four corners of every pooling window as four sets of channels.

Pooling does little with each output of a convolution, but takes longer than the convolution itself, because neighbors
in memory belong to different windows. So the convolution should sort them. Its output at the position
``(2i + a, 2j + b)`` is the output at ``(i, j)`` of a convolution with stride 2 whose kernel is moved by ``(a, b)``:

    y_ab = conv2d(x, pad(weight, a above, 1 - a below, b left, 1 - b right), stride=2)     one convolution for all four
    out  = relu(max(y_00, y_01, y_10, y_11))                                               one number after the other

The larger kernel takes ``(k + 1)^2`` multiplications instead of ``k^2``, so with many channels it would cost more than
the pooling.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F
from torch.nn.grad import conv2d_weight

ADDED = 110  # multiplications for each output that the larger kernel may cost, by measurement
LEAST = 100_000  # outputs of the convolution; with fewer, starting the operations takes most of the time
BLOCK = 2**19  # outputs at a time: larger memory returns to the system at every step, and must be cleared again


def pays(x: Tensor, weight: Tensor, bias: Tensor) -> bool:
    """Whether this code is faster for these tensors."""
    known = x.dtype in (torch.float32, torch.float64) and x.dtype == weight.dtype == bias.dtype
    if x.device.type != "cpu" or not known or x.ndim != 4 or weight.ndim != 4:
        return False
    count, channels, k, l = weight.shape
    height, width = x.shape[2] - k + 1, x.shape[3] - l + 1
    enough = min(height, width) > 1 and len(x) * count * height * width >= LEAST
    return enough and channels * (k + l + 1) <= ADDED


def conv_relu_pool(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """See :mod:`hyperfront.kernels.conv_relu_pool`."""
    (batch, _, height, width), (count, _, k, l) = x.shape, weight.shape
    outputs = batch * count * (height - k + 1) * (width - l + 1)
    run = _ConvReluPool.apply if torch.is_grad_enabled() else _without_gradient
    found = [run(images, weight, bias)[0] for images in x.chunk(math.ceil(outputs / BLOCK))]
    return torch.cat(found) if len(found) > 1 else found[0]


def _without_gradient(x: Tensor, weight: Tensor, bias: Tensor) -> tuple[Tensor]:
    return (_corners(x, weight, bias).amax(1).relu_(),)


def _corners(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """Compute the outputs of the convolution, ``[B, 4, O, h, w]``."""
    return F.conv2d(x, _kernels(weight), torch.cat([bias] * 4), stride=2).unflatten(1, (4, len(weight)))


def _kernels(weight: Tensor) -> Tensor:
    """Make the four kernels ``[4 O, C, k + 1, l + 1]``: the weight, moved to each corner."""
    count, channels, k, l = weight.shape
    kernels = weight.new_zeros(4 * count, channels, k + 1, l + 1)
    _inside(kernels, weight.shape).copy_(weight)
    return kernels


def _inside(kernels: Tensor, shape: Sequence[int]) -> Tensor:
    """View the weights in the four kernels, ``[2, 2, O, C, k, l]``: from ``a = 0`` to ``a = 1`` the view moves by two
    kernels and one row down, from ``b = 0`` to ``b = 1`` by one kernel and one column to the right."""
    kernel, channel, row, column = kernels.stride()
    corner = shape[0] * kernel
    return kernels.as_strided((2, 2, *shape), (2 * corner + row, corner + column, kernel, channel, row, column))


class _ConvReluPool(torch.autograd.Function):
    """``x, weight, bias -> out [B, O, h, w], chosen [B, 4, O, h, w]``: 1 at the corner that gets the gradient."""

    @staticmethod
    def forward(x: Tensor, weight: Tensor, bias: Tensor) -> tuple[Tensor, Tensor]:  # pyrefly: ignore[bad-override]
        corners = _corners(x, weight, bias)
        out = corners.amax(1).relu_()
        chosen = corners.eq_(out[:, None])  # in place, so that it gives numbers: truth values are not vectorized
        left = out.sign()
        for corner in chosen.unbind(1):  # of equal values the first counts, as in pooling
            left.sub_(corner.mul_(left))
        return out, chosen

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple, output: tuple) -> None:
        x, weight, _ = inputs
        ctx.save_for_backward(x, weight, output[1])
        ctx.mark_non_differentiable(output[1])
        ctx.set_materialize_grads(False)

    @staticmethod
    def backward(ctx: Any, grad: Tensor | None, _: None) -> tuple[Tensor | None, ...]:  # pyrefly: ignore[bad-override]
        if grad is None:
            return None, None, None
        x, weight, chosen = ctx.saved_tensors
        for_x, for_weight, for_bias = ctx.needs_input_grad
        count, (height, width) = len(weight), grad.shape[2:]
        grads = (chosen * grad[:, None]).reshape(len(x), 4 * count, height, width)  # of the convolution's outputs
        summed = grads.sum(0).view(4, count, height * width)  # now, while they are in the cache
        return (
            _input_gradient(grads, weight, x.shape) if for_x else None,
            _weight_gradient(grads, weight, x) if for_weight else None,
            summed.sum((0, 2)) if for_bias else None,
        )

    @staticmethod
    def vmap(info: Any, in_dims: Sequence[int | None], *tensors: Tensor) -> tuple[tuple[Tensor, ...], tuple[int, int]]:
        """Run one ray after the other, which is faster on a CPU than all at once."""
        each = [
            [tensor] * info.batch_size if dim is None else tensor.unbind(dim) for tensor, dim in zip(tensors, in_dims)
        ]
        results = [_ConvReluPool.apply(*ray) for ray in zip(*each)]
        return tuple(torch.stack(parts) for parts in zip(*results)), (0, 0)


def _weight_gradient(grads: Tensor, weight: Tensor, x: Tensor) -> Tensor:
    """Compute the gradients of the four kernels, move them back and add them."""
    count, channels, k, l = weight.shape
    x = x.contiguous(memory_format=torch.channels_last)  # takes half the time with several channels
    kernels = conv2d_weight(x, (4 * count, channels, k + 1, l + 1), grads, stride=2)
    return _inside(kernels, weight.shape).sum((0, 1))


def _input_gradient(grads: Tensor, weight: Tensor, shape: Sequence[int]) -> Tensor:
    """Compute the gradients of even and odd rows and columns, then interleave them: twice as fast as a stride of 2."""
    kernels = _kernels(weight)
    odd = (0, kernels.shape[3] % 2, 0, kernels.shape[2] % 2)
    parts = F.conv_transpose2d(grads, F.pixel_unshuffle(F.pad(kernels, odd) if any(odd) else kernels, 2))
    batch, channels, height, width = len(parts), shape[1], *parts.shape[2:]
    whole = grads.new_empty(batch, channels, 2 * height, 2 * width)
    for index, part in enumerate(parts.view(batch, channels, 4, height, width).unbind(2)):
        whole[..., index // 2 :: 2, index % 2 :: 2].copy_(part)
    missing = (0, shape[3] - 2 * width, 0, shape[2] - 2 * height)  # pixels that no window reaches, or negative
    return F.pad(whole, missing) if any(missing) else whole
