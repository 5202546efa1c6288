"""The paper's hypernetwork: an MLP with two hidden layers and linear heads, all heads in one matrix product.

    z     = W3 relu(W2 relu(W1 e(r) + b1) + b2) + b3          features [R, hidden]
    theta = W z + b                                           one row of W for each generated weight

Two initializations:

``"plain"``
    the paper's: ``e(r) = r`` and PyTorch's default for every layer. Generated weights then start at a scale that is
    unrelated to their layer.
``"residual"`` (default)
    ``e(r) = (cos(pi r / 2), sin(pi r / 2))``, of constant norm, so that no objective's features fade near a corner of
    the simplex; ``b`` starts at the target's own initialization and ``W z`` at a tenth of its standard deviation,
    tensor by tensor (after Ortiz et al., 2023, "Magnitude invariant parametrizations improve hypernetwork learning").
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Literal

import torch
from torch import Tensor, nn

from hyperfront.errors import HyperfrontError
from hyperfront.kernels import on_gpu
from hyperfront.kernels.factors import Factors
from hyperfront.model.hypernets.base import Hypernet
from hyperfront.model.hypernets.inner import inner_products
from hyperfront.preferences import das_dennis

DRAWS = 100
"""The most draws of a trunk whose units are not all zero."""
RESIDUAL_SCALE = 0.1


class MLPHypernet(Hypernet):
    """``rays [R, m] -> theta [R, n]``.

    ``start [n]`` is the target's own initialization and ``sizes`` the sizes of its tensors; only the residual
    initialization uses them.

    >>> hypernet = MLPHypernet(2, 31910, initialization="plain")
    >>> sum(p.numel() for p in hypernet.parameters())  # as in the paper
    3243410
    """

    kind = "mlp"

    def __init__(
        self,
        m: int,
        n: int,
        *,
        hidden: int = 100,
        initialization: Literal["residual", "plain"] = "residual",
        start: Tensor | None = None,
        sizes: Sequence[int] | None = None,
    ):
        super().__init__()
        if hidden < 1 or initialization not in ("residual", "plain"):
            raise HyperfrontError(
                "no such MLP hypernetwork",
                got=f"hidden = {hidden}, initialization = {initialization!r}",
                expected="hidden >= 1 and initialization 'residual' or 'plain'",
            )
        self.m, self.n, self.hidden, self.initialization = m, n, hidden, initialization
        width = m if initialization == "plain" else 2 * m
        self.first, self.second, self.third = (
            nn.Linear(width, hidden),
            nn.Linear(hidden, hidden),
            nn.Linear(hidden, hidden),
        )
        self.heads = nn.Linear(hidden, n)
        if initialization == "residual" and start is not None:
            self._start_at(start, sizes or [n])

    @torch.no_grad()
    def _start_at(self, start: Tensor, sizes: Sequence[int]) -> None:
        start = start.to(self.heads.weight)
        for _ in range(DRAWS):
            for layer in (self.first, self.second, self.third):
                nn.init.kaiming_normal_(layer.weight, nonlinearity="relu")
                nn.init.zeros_(layer.bias)
            features = self._activations(das_dennis(self.m, 4).float())[-1]
            length = features.square().sum(-1).mean().sqrt()
            if length > 0:  # a narrow trunk may be drawn with units that are all zero
                break
        else:
            length = torch.ones(())
        deviation = torch.cat([p.std(correction=0).expand(len(p)) for p in start.split(list(sizes))])
        self.heads.weight.normal_().mul_(RESIDUAL_SCALE * deviation[:, None] / length)
        self.heads.bias.copy_(start)

    def options(self) -> dict[str, Any]:
        return {"hidden": self.hidden, "initialization": self.initialization}

    def _encode(self, rays: Tensor) -> Tensor:
        if self.initialization == "plain":
            return rays
        return torch.cat([(math.pi / 2 * rays).cos(), (math.pi / 2 * rays).sin()], dim=-1)

    def _activations(self, rays: Tensor) -> list[Tensor]:
        """Compute the input of every layer: ``[e(r), h1, h2, z]``."""
        rays = self._encode(rays)
        h1 = torch.relu(self.first(rays))
        h2 = torch.relu(self.second(h1))
        return [rays, h1, h2, self.third(h2)]

    def forward(self, rays: Tensor) -> Tensor:
        return self.factored(rays, None)

    def factored(self, rays: Tensor, factors: Factors | None) -> Tensor:
        layers = (self.first, self.second, self.third, self.heads)
        tensors = tuple(tensor for layer in layers for tensor in (layer.weight, layer.bias))
        if on_gpu(rays, *tensors):
            from hyperfront.kernels.gpu.hypernet import fits, mlp_on_gpu  # needs CUDA

            if fits(rays, tensors):
                return mlp_on_gpu(rays, self.initialization == "residual", factors, *tensors)
        return self.heads(self._activations(rays)[-1])

    @torch.no_grad()
    def gram(self, rays: Tensor, grads: Tensor) -> Tensor:
        """Compute the Gram matrix in hypernetwork space without its Jacobian.

        At one ray the gradient of a layer is the outer product of ``delta`` and the layer's input ``h``, so

            C_ij = sum over layers (1 + |h|^2) <delta_i, delta_j>

        with ``delta = grads`` at the heads and back-propagated through the small trunk for the rest.
        """
        layers, inputs = [self.first, self.second, self.third, self.heads], self._activations(rays)
        delta, gram = grads, torch.zeros((), dtype=torch.float64, device=grads.device)
        for index in (3, 2, 1, 0):
            square = 1 + inputs[index].double().square().sum(-1)
            gram = gram + square[:, None, None] * inner_products(delta.unbind(1))
            if index:
                delta = delta @ layers[index].weight
            if index in (1, 2):  # these inputs came out of a ReLU
                delta = delta * (inputs[index] > 0)[:, None]
        return gram
