"""On the CPU: the four corners of every pooling window as four channels.

Pooling reads each output of the convolution once and does almost nothing with it, and yet takes longer than the
convolution, because neighbours in memory go to different windows. So let the convolution itself sort them. Its output
at ``(2 i + a, 2 j + b)`` is the output at ``(i, j)`` of a convolution of stride 2 whose kernel is moved by ``(a, b)``:

    y_ab = conv2d(x, pad(weight, a above, 1 - a below, b left, 1 - b right), stride=2)      one convolution of 4 O channels
    out  = relu(max(y_00, y_01, y_10, y_11))                                                elementwise

The larger kernel costs ``(k + 1)^2 / k^2`` of the arithmetic, and wins while there are few channels.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F
from torch.nn.grad import conv2d_weight

CORNERS = [(0, 0), (0, 1), (1, 0), (1, 1)]  # in the order in which pooling looks: of equal values, the first counts


def pays(x: Tensor, weight: Tensor, bias: Tensor) -> bool:
    """Whether this is the place for these tensors."""
    same = x.device.type == "cpu" and x.dtype == weight.dtype == bias.dtype and x.dtype in (torch.float32, torch.float64)
    if not same or x.ndim != 4 or weight.ndim != 4:
        return False
    height, width = (size - side + 1 for size, side in zip(x.shape[2:], weight.shape[2:]))
    return height >= 2 and width >= 2


def conv_relu_pool(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    if not torch.is_grad_enabled():
        return _corners(x, weight, bias).amax(1).relu()
    return _ConvReluPool.apply(x, weight, bias)[0]


def _corners(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """The convolution's output, ``[B, 4, O, h, w]``."""
    return F.conv2d(x, _kernels(weight), bias.repeat(4), stride=2).unflatten(1, (4, len(weight)))


def _kernels(weight: Tensor) -> Tensor:
    """The weight at the four corners, ``[4 O, C, k + 1, l + 1]``."""
    return torch.cat([F.pad(weight, (b, 1 - b, a, 1 - a)) for a, b in CORNERS])


class _ConvReluPool(torch.autograd.Function):
    """``x, weight, bias -> out [B, O, h, w], chosen [B, 4, O, h, w]``, the latter 1 where the gradient goes, else 0."""

    @staticmethod
    def forward(x: Tensor, weight: Tensor, bias: Tensor) -> tuple[Tensor, Tensor]:  # pyrefly: ignore[bad-override]
        corners = _corners(x, weight, bias)
        out = corners.amax(1).relu()
        chosen = corners.eq_(out[:, None])  # in place, since a comparison that gives floats is ten times faster
        left = torch.empty_like(out).copy_(out).gt_(0)
        for corner in chosen.unbind(1):
            left.sub_(corner.mul_(left))
        return out, chosen

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple, output: tuple) -> None:
        ctx.set_materialize_grads(False)
        ctx.mark_non_differentiable(output[1])
        ctx.save_for_backward(inputs[0], inputs[1], output[1])

    @staticmethod
    def backward(ctx: Any, grad: Tensor, _: None) -> tuple[Tensor | None, ...]:  # pyrefly: ignore[bad-override]
        x, weight, chosen = ctx.saved_tensors
        spread = (chosen * grad[:, None]).flatten(1, 2)  # [B, 4 O, h, w]
        for_x, for_weight, for_bias = ctx.needs_input_grad
        return (
            _input_gradient(spread, weight, x.shape) if for_x else None,
            _weight_gradient(spread, x, weight) if for_weight else None,
            spread.sum((0, 2, 3)).view(4, -1).sum(0) if for_bias else None,
        )

    @staticmethod
    def vmap(info: Any, in_dims: Sequence[int | None], *tensors: Tensor) -> tuple[tuple, tuple]:
        """One ray after the other."""
        rays = zip(
            *(
                [tensor] * info.batch_size if dim is None else tensor.unbind(dim)
                for tensor, dim in zip(tensors, in_dims)
            )
        )
        outputs = zip(*(_ConvReluPool.apply(*ray) for ray in rays))
        return tuple(torch.stack(parts) for parts in outputs), (0, 0)


def _weight_gradient(spread: Tensor, x: Tensor, weight: Tensor) -> Tensor:
    """Of the four kernels, moved back and added."""
    count, channels, k, l = weight.shape
    size = (4 * count, channels, k + 1, l + 1)
    kernels = conv2d_weight(x.contiguous(memory_format=torch.channels_last), size, spread, stride=2)
    return sum(part[:, :, a : a + k, b : b + l] for part, (a, b) in zip(kernels.split(count), CORNERS))


def _input_gradient(spread: Tensor, weight: Tensor, shape: Sequence[int]) -> Tensor:
    """Of the even and odd rows and columns apart, since a transposed convolution is twice as slow with stride 2."""
    kernels = _kernels(weight)
    kernels = F.pad(kernels, (0, kernels.shape[3] % 2, 0, kernels.shape[2] % 2))
    parts = F.conv_transpose2d(spread, F.pixel_unshuffle(kernels, 2)).unflatten(1, (-1, 2, 2))  # [B, C, 2, 2, h', w']
    rows = torch.stack([parts[:, :, :, 0], parts[:, :, :, 1]], -1).flatten(-2).transpose(2, 3).flatten(2, 3)
    return F.pad(rows, (0, shape[3] - rows.shape[3], 0, shape[2] - rows.shape[2]))
