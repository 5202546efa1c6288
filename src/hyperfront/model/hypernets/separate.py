"""No hypernetwork: a table with one row of weights for each of a few rays, i.e. one separate model per ray.

    theta(r) = theta_i,   i = argmin_i |r - r_i|

As a hypernetwork it trains, evaluates and saves like any other, with the same step, engines and files. Each row has
entries of its own in the state of an optimizer such as Adam, so that one optimizer for the table is one for each model.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from hyperfront.model.hypernets.base import Hypernet
from hyperfront.preferences import nearest, validate


class SeparateHypernet(Hypernet):
    """``rays [R, m] -> theta [R, n]``: the row of the nearest of its own rays ``[K, m]``; all begin at ``start [n]``.

    >>> hypernet = SeparateHypernet(2, 3, rays=[[1.0, 0.0], [0.0, 1.0]])
    >>> hypernet(torch.tensor([[0.9, 0.1]])).shape
    torch.Size([1, 3])
    """

    kind = "separate"
    table: Tensor

    def __init__(
        self,
        m: int,
        n: int,
        *,
        rays: Tensor | Sequence,
        start: Tensor | None = None,
        sizes: Sequence[int] | None = None,
    ):
        super().__init__()
        self.m, self.n = m, n
        with torch.device("cpu"):  # numbers, also where a model is laid out without any
            self.rays = validate(rays, m).tolist()
        self.theta = nn.Parameter((torch.zeros(n) if start is None else start).repeat(len(self.rays), 1))
        self.register_buffer("table", torch.tensor(self.rays).to(self.theta))

    @property
    def knots(self) -> Tensor:
        return torch.tensor(self.rays).to(self.theta)

    def options(self) -> dict[str, Any]:
        return {"rays": self.rays}

    def forward(self, rays: Tensor) -> Tensor:
        theta = self.theta.index_select(0, nearest(rays, self.table))
        if theta.requires_grad and len(rays) > 1:
            count = len(rays)
            theta.register_hook(lambda gradient: gradient * count)  # a step averages over rays, and these are apart
        return theta
