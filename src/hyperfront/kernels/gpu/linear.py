"""Compute ``relu(x W^T + b)`` in one launch of ``linear.cu``, and all its gradients in another.

Shapes: ``x [Rx, M, K]`` with ``Rx`` 1 or ``R``, ``weight [R, N, K]``, ``bias [R, N]``, cotangents ``g [J, R, M, N]``.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from hyperfront.kernels.gpu.cuda_source import available, launch, up
from hyperfront.kernels.gpu.rays import merged, merged_unless_shared, vmap_gradients

SMALL = 2**16
"""The most weights of a layer for these kernels; the library's products of a larger one fill a GPU."""


def pays(x: Tensor, weight: Tensor) -> bool:
    """Whether there is a kernel for these tensors, and the layer is small."""
    return available(x.device) and x.dtype == weight.dtype == torch.float32 and weight.numel() <= SMALL


def linear_on_gpu(x: Tensor, weight: Tensor, bias: Tensor, relu: bool) -> Tensor:
    """Compute ``F.linear(x, weight, bias)`` of ``x [M, K]``, followed by a ReLU if ``relu``."""
    return _Linear.apply(x[None], weight[None], bias[None], relu).squeeze(0)


class _Linear(torch.autograd.Function):
    """The operation for tensors with a leading dimension of rays, which may be 1 for ``x``."""

    @staticmethod
    def forward(x: Tensor, weight: Tensor, bias: Tensor, relu: bool) -> Tensor:
        x, weight, bias = x.contiguous(), weight.contiguous(), bias.contiguous()
        (Rx, M, K), (R, N, _) = x.shape, weight.shape
        y = x.new_empty(R, M, N)
        launch(
            "linear.cu", "forward", (up(M, 16) * up(N, 8), R), 256,
            x, weight, bias, y, M, (Rx > 1) * M * K, FORWARD=1, N=N, D=K, RELU=int(relu),
        )  # fmt: skip
        return y

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple, output: Tensor) -> None:
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(inputs[0], inputs[1], output)
        ctx.relu = inputs[3]

    @staticmethod
    def backward(ctx: Any, g: Tensor | None) -> tuple:
        if g is None:
            return None, None, None, None
        found = _Gradient.apply(g[None], *ctx.saved_tensors, ctx.relu, ctx.needs_input_grad[0])
        return *(None if part is None else part.squeeze(0) for part in found), None

    @staticmethod
    def vmap(info: Any, dims: tuple, x: Tensor, weight: Tensor, bias: Tensor, relu: bool) -> tuple:
        count = info.batch_size
        weight, bias = merged(weight, dims[1], count), merged(bias, dims[2], count)
        y = _Linear.apply(merged_unless_shared(x, dims[0], count), weight, bias, relu)
        return y.unflatten(0, (count, -1)), 0


class _Gradient(torch.autograd.Function):
    """The gradients ``dx`` (if wanted), ``dw``, ``db`` for cotangents ``g [J, R, M, N]``."""

    @staticmethod
    def forward(g: Tensor, x: Tensor, weight: Tensor, y: Tensor, relu: bool, wants_x: bool) -> tuple:
        g, x, weight, y = g.contiguous(), x.contiguous(), weight.contiguous(), y.contiguous()
        (J, R, M, N), K = g.shape, x.shape[-1]
        dx = g.new_empty(J, R, M, K) if wants_x else g
        dw, db = g.new_empty(J, R, N, K), g.new_empty(J, R, N)
        inputs = up(M, 16) * up(K, 128) * wants_x
        launch(
            "linear.cu", "backward", (inputs + up(N, 16) * up(K + 1, 32), J * R), 256,
            g, y, x, weight, dx, dw, db, M, (len(x) > 1) * M * K, R, inputs,
            BACKWARD=1, N=N, D=K, RELU=int(relu),
        )  # fmt: skip
        if wants_x and len(x) != R:
            dx = dx.sum(1, keepdim=True)
        return (dx if wants_x else None), dw, db

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple, output: tuple) -> None:
        pass

    @staticmethod
    def backward(ctx: Any, *_: Any) -> Any:
        raise NotImplementedError("the fused linear layer has no second derivative")

    @staticmethod
    def vmap(info: Any, dims: tuple, *args: Any) -> tuple:
        return vmap_gradients(_Gradient.apply, info.batch_size, dims, *args)
