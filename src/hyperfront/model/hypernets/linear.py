"""Low-rank additions that are linear in the ray: PaLoRA (Dimitriadis et al., 2025, "Pareto low-rank adapters").

    W(r) = W0 + sum_t r_t B_t A_t       so theta = (A, r_1 B_1, ..., r_m B_m)

It has no layers: its parameters are the factors at the ``m`` corners of the simplex, and a ray mixes them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from hyperfront.errors import HyperfrontError
from hyperfront.model.hypernets.base import Hypernet
from hyperfront.model.hypernets.inner import inner_products


class LinearHypernet(Hypernet):
    """``rays [R, m] -> theta [R, n]`` for a :class:`~hyperfront.model.assemblies.LowRank` with ``m`` terms.

    ``sizes`` are the sizes of its parts: one ``A`` for each tensor, then for each objective one ``B`` for each tensor.

    >>> hypernet = LinearHypernet(2, 10, start=torch.arange(10.0), sizes=[4, 3, 3])
    >>> hypernet(torch.tensor([[1.0, 0.0]]))[0].tolist()
    [0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 0.0, 0.0, 0.0]
    """

    kind = "linear"

    def __init__(self, m: int, n: int, *, start: Tensor | None = None, sizes: Sequence[int]):
        super().__init__()
        start = torch.zeros(n) if start is None else start
        tensors = len(sizes) // (m + 1)
        fixed = sum(sizes[:tensors])
        if len(sizes) % (m + 1) or (n - fixed) % m:
            raise HyperfrontError(
                "only low-rank factors can be linear in the ray",
                got=f"{len(sizes)} part(s) of theta",
                expected=f"for each tensor one A and {m} times B",
                fix='hypernet="low_rank", linear=True',
            )
        self.m, self.n = m, n
        self.down = nn.Parameter(start[:fixed].clone())
        self.up = nn.Parameter(start[fixed:].reshape(m, -1).clone())  # row t is B_t of all tensors

    def options(self) -> dict[str, Any]:
        return {}

    def forward(self, rays: Tensor) -> Tensor:
        return torch.cat([self.down.expand(len(rays), -1), (rays[:, :, None] * self.up).flatten(1)], dim=1)

    @torch.no_grad()
    def gram(self, rays: Tensor, grads: Tensor) -> Tensor:
        """Compute the Gram matrix in hypernetwork space: the gradient of ``B_t`` is ``r_t`` times the gradient of its
        part of ``theta``."""
        down, up = grads.split([self.down.numel(), self.up.numel()], dim=-1)
        up = up.unflatten(-1, (self.m, -1)) * rays[:, None, :, None]
        return inner_products(down.unbind(1)) + inner_products(up.flatten(2).unbind(1))
