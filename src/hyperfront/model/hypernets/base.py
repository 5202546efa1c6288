"""The abstract hypernetwork: a map from rays ``[R, m]`` to target weights ``theta [R, n]``."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

import torch
from torch import Tensor, nn

from hyperfront.kernels.factors import Factors


class Hypernet(nn.Module, ABC):
    """Abstract base; subclasses are final."""

    kind: str
    m: int
    n: int

    @abstractmethod
    def forward(self, rays: Tensor) -> Tensor:
        """``rays [R, m] -> theta [R, n]``."""

    def factored(self, rays: Tensor, factors: Factors | None) -> Tensor:
        """Compute theta; the backward pass may leave gradients of linear layers in ``factors`` instead of ``.grad``.

        See :mod:`hyperfront.kernels.factors`. This version writes every ``.grad``.
        """
        return self(rays)

    @abstractmethod
    def options(self) -> dict[str, Any]:
        """Return the keyword arguments, as JSON, that make a hypernetwork of the same shape."""

    @property
    def knots(self) -> Tensor | None:
        """The only rays ``[K, m]`` for which the hypernetwork has weights; None if it has weights for every ray."""
        return None

    def gram(self, rays: Tensor, grads: Tensor) -> Tensor:
        """Compute the Gram matrix ``[R, m, m]`` in hypernetwork space: inner products of the objectives' gradients with
        respect to the hypernetwork's parameters, from their gradients ``grads [R, m, n]`` with respect to ``theta``.

        This version forms the Jacobian of one ray at a time; architectures with a faster way override it.
        """
        parameters = [p for p in self.parameters() if p.requires_grad]
        result = []
        for ray, cotangents in zip(rays, grads):
            with torch.enable_grad():
                theta = self(ray[None])[0]
            rows = []
            for cotangent in cotangents:
                found = torch.autograd.grad(theta, parameters, cotangent, retain_graph=True, materialize_grads=True)
                rows.append(torch.cat([g.flatten() for g in found]).double())
            jacobian = torch.stack(rows)
            result.append(jacobian @ jacobian.T)
        return torch.stack(result)


class OwnHypernet(Hypernet):
    """The user's own module, ``rays [R, m] -> theta [R, n]``, as a hypernetwork."""

    kind = "own"

    def __init__(self, module: nn.Module, m: int, n: int):
        super().__init__()
        self.module, self.m, self.n = module, m, n

    def forward(self, rays: Tensor) -> Tensor:
        return self.module(rays)

    def options(self) -> dict[str, Any]:
        return {}
