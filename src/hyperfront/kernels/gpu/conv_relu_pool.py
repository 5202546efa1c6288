"""The convolution of ``conv.cu`` as a differentiable function, for several rays and several cotangents at once."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from hyperfront.kernels.gpu import conv
from hyperfront.kernels.gpu.cuda_source import available
from hyperfront.kernels.gpu.rays import merged, merged_unless_shared, vmap_gradients


def pays(x: Tensor, weight: Tensor) -> bool:
    """Whether there is a kernel for these tensors, under vmap too."""
    square = weight.shape[-1] == weight.shape[-2]
    shape = conv.Shape.of((x.shape[-2], x.shape[-1]), weight)
    return available(x.device) and x.dtype == weight.dtype == torch.float32 and square and shape.fits()


def conv_relu_pool_on_gpu(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """Compute ``max_pool2d(relu(conv2d(x, weight, bias)), 2)`` of ``x [B, C, H, W]``; under vmap in one launch for all
    rays."""
    return _ConvReluPool.apply(x[None], weight[None], bias[None])[0].squeeze(0)  # [0] would copy the gradient


class _ConvReluPool(torch.autograd.Function):
    """The operation for tensors with a leading dimension of rays, which may be 1 for ``x``."""

    @staticmethod
    def forward(x: Tensor, weight: Tensor, bias: Tensor) -> tuple[Tensor, Tensor]:
        return conv.forward(x.contiguous(), weight.contiguous(), bias.contiguous())

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple, output: tuple) -> None:
        ctx.set_materialize_grads(False)
        ctx.mark_non_differentiable(output[1])
        ctx.save_for_backward(inputs[0], inputs[1], output[1])

    @staticmethod
    def backward(ctx: Any, g: Tensor | None, _: Any) -> tuple:
        if g is None:
            return None, None, None
        found = _Gradient.apply(g[None], *ctx.saved_tensors, ctx.needs_input_grad[0])
        return tuple(None if part is None else part.squeeze(0) for part in found)

    @staticmethod
    def vmap(info: Any, dims: tuple, x: Tensor, weight: Tensor, bias: Tensor) -> tuple:
        count = info.batch_size
        weight, bias = merged(weight, dims[1], count), merged(bias, dims[2], count)
        found = _ConvReluPool.apply(merged_unless_shared(x, dims[0], count), weight, bias)
        return tuple(tensor.unflatten(0, (count, -1)) for tensor in found), (0, 0)


class _Gradient(torch.autograd.Function):
    """The gradients for cotangents ``g [J, R, ...]``: ``dx`` (if wanted), ``dw``, ``db``, each ``[J, R, ...]``."""

    @staticmethod
    def forward(g: Tensor, x: Tensor, weight: Tensor, phase: Tensor, wants_x: bool) -> tuple:
        g, x, weight = g.contiguous(), x.contiguous(), weight.contiguous()
        dw, db = conv.weight_gradient(x, g, phase, weight)
        if not wants_x:
            return None, dw, db
        dx = conv.input_gradient(g, phase, weight, (x.shape[-2], x.shape[-1]))
        return (dx if len(x) == dx.shape[1] else dx.sum(1, keepdim=True)), dw, db

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple, output: tuple) -> None:
        pass

    @staticmethod
    def backward(ctx: Any, *_: Any) -> Any:
        raise NotImplementedError("conv_relu_pool has no second derivative")

    @staticmethod
    def vmap(info: Any, dims: tuple, *args: Any) -> tuple:
        return vmap_gradients(_Gradient.apply, info.batch_size, dims, *args)
