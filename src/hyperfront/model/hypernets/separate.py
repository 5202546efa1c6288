"""Separate models, one for each of a few rays: a table with one row of weights for each model.

    theta(r) = theta_i,   i = argmin_i |r - r_i|

In the form of a hypernetwork, they train, evaluate and save with the same step, engines and files. An optimizer such as
Adam keeps its state for each entry of the table, so one optimizer for the table equals one optimizer for each model.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from hyperfront.model.hypernets.base import Hypernet
from hyperfront.preferences import nearest, validate


class SeparateHypernet(Hypernet):
    """``rays [R, m] -> theta [R, n]``: the row of the nearest of its own rays ``[K, m]``; all rows start at
    ``start [n]``.

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
        with torch.device("cpu"):  # real numbers, even when the model is made on the meta device
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
            theta.register_hook(lambda gradient: gradient * count)  # a step averages over rays: undo it
        return theta
