"""The MLP hypernetwork at a few rays in two launches of ``hypernet.cu``, and its gradients in two more."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from hyperfront.kernels.factors import Factors, Layer
from hyperfront.kernels.gpu.cuda_source import SHARED, available, launch, up

BLOCKS = 1056  # of the products with the large matrix: 8 for each of the 132 processors of an H200
BACK_BLOCKS = 264


def fits(rays: Tensor, layers: tuple[Tensor, ...]) -> bool:
    """Whether rays and features are few enough, and the rays need no gradient."""
    plain = not rays.requires_grad and all(tensor.dtype == torch.float32 for tensor in (rays, *layers))
    R, m, H = *rays.shape, len(layers[1])
    return available(rays.device) and plain and m <= 32 and R <= 16 and H <= 128 and 32 * R * H + 64 <= SHARED


def mlp_on_gpu(rays: Tensor, encode: bool, factors: Factors | None, *layers: Tensor) -> Tensor:
    """Compute ``theta [R, n]`` from ``rays [R, m]`` and ``W1, b1, W2, b2, W3, b3, W, b``.

    The backward pass puts gradients of the layers into ``factors``, or into ``.grad`` if that is None.
    """
    return _MLP.apply(rays.contiguous(), encode, factors, *layers)


class _MLP(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, rays: Tensor, encode: bool, factors: Factors | None, *layers: Tensor) -> Tensor:
        (R, m), H, (n, _) = rays.shape, len(layers[1]), layers[6].shape
        e, (h1, h2, z) = rays.new_empty(R, 2 * m if encode else m), (rays.new_empty(R, H) for _ in range(3))
        sizes = {"R": R, "H": H, "M": m, "ENCODE": int(encode)}
        launch("hypernet.cu", "features", (R, 1), 1024, rays, *layers[:6], e, h1, h2, z, FEATURES=1, **sizes)
        if R <= 2:
            theta = rays.new_empty(R, n)
            launch("hypernet.cu", "theta", (BLOCKS, 1), 256, z, *layers[6:], theta, n, THETA=1, R=R, H=H)
        else:
            theta = torch.addmm(layers[7], z, layers[6].T)
        ctx.save_for_backward(e, h1, h2, z)
        ctx.layers, ctx.factors = layers, factors
        return theta

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> tuple:
        (e, h1, h2, z), layers = ctx.saved_tensors, ctx.layers
        g, (R, H), n = g.contiguous(), z.shape, g.shape[1]
        partial = z.new_empty(BACK_BLOCKS, R, H)
        slopes = [torch.empty_like(z) for _ in range(3)]
        launch(
            "hypernet.cu", "back", (BACK_BLOCKS, 1), 256, g, layers[6], partial, n, up(n, BACK_BLOCKS), BACK=1, R=R, H=H
        )
        launch(
            "hypernet.cu", "back_features", (R, 1), 1024,
            partial, layers[2], layers[4], h1, h2, *slopes, BACK_BLOCKS, BACK_FEATURES=1, R=R, H=H,
        )  # fmt: skip
        pairs = [(slopes[2], e), (slopes[1], h1), (slopes[0], h2), (g, z)]
        if ctx.factors is not None:
            for index, (slope, x) in enumerate(pairs):
                ctx.factors.put(Layer(layers[2 * index], layers[2 * index + 1], slope, x))
            return None, None, None, *(None for _ in layers)
        return None, None, None, *(gradient for slope, x in pairs for gradient in (slope.T @ x, slope.sum(0)))
