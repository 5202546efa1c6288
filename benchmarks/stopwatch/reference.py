"""Algorithm 1 of the paper (Navon et al., 2021) as one would write it first, to compare with.

One linear head for each tensor of the target, ``functional_call``, the gradient of every objective with respect to the
parameters of the hypernetwork (``m`` backward passes through it), for EPO one linear program a step by HiGHS on the
CPU, and ``torch.optim.Adam``. Nothing of hyperfront is used.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from scipy.optimize import linprog
from torch import Tensor, nn
from torch.func import functional_call

Losses = Callable[[Callable[..., Any], Any], Sequence[Tensor]]
"""``(network, batch) -> m losses``."""
TOLERANCE = 1e-4


class Hypernetwork(nn.Module):
    """A ray ``[m]`` to the tensors of the target, by name."""

    def __init__(self, m: int, hidden: int, module: nn.Module):
        super().__init__()
        self.shapes = {name: parameter.shape for name, parameter in module.named_parameters()}
        self.trunk = nn.Sequential(
            nn.Linear(m, hidden), nn.ReLU(), nn.Linear(hidden, hidden), nn.ReLU(), nn.Linear(hidden, hidden)
        )
        self.heads = nn.ModuleList(nn.Linear(hidden, shape.numel()) for shape in self.shapes.values())

    def forward(self, ray: Tensor) -> dict[str, Tensor]:
        features = self.trunk(ray)
        return {name: head(features).view(shape) for (name, shape), head in zip(self.shapes.items(), self.heads)}


class ReferenceStep:
    """One step of PHN-LS, or with ``epo`` of PHN-EPO."""

    def __init__(self, module: nn.Module, losses: Losses, *, m: int, hidden: int, lr: float, epo: bool):
        self.module, self.losses, self.epo = module, losses, epo
        device = next(module.parameters()).device
        self.hypernetwork = Hypernetwork(m, hidden, module).to(device)
        self.parameters = list(self.hypernetwork.parameters())
        self.optimizer = torch.optim.Adam(self.parameters, lr=lr)

    def __call__(self, ray: Tensor, batch: Any) -> None:
        weights = self.hypernetwork(ray)
        losses = self.losses(lambda *inputs: functional_call(self.module, weights, inputs), batch)
        self.optimizer.zero_grad()
        if self.epo:
            self._put(losses, ray)
        else:
            (ray * torch.stack(list(losses))).sum().backward()
        self.optimizer.step()

    def _put(self, losses: Sequence[Tensor], ray: Tensor) -> None:
        """``sum_j beta_j grad l_j`` into ``.grad``."""
        rows = []
        for loss in losses:
            found = torch.autograd.grad(loss, self.parameters, retain_graph=True, materialize_grads=True)
            rows.append(torch.cat([gradient.flatten() for gradient in found]))
        gradients = torch.stack(rows)
        values = np.array([loss.item() for loss in losses])
        beta = epo_weights(values, ray.double().cpu().numpy(), (gradients @ gradients.T).double().cpu().numpy())
        total = torch.from_numpy(beta).to(gradients) @ gradients
        sizes = [parameter.numel() for parameter in self.parameters]
        for parameter, part in zip(self.parameters, total.split(sizes)):
            parameter.grad = part.view_as(parameter)


def epo_weights(losses: np.ndarray, ray: np.ndarray, gram: np.ndarray) -> np.ndarray:
    """The weights of EPO (Mahapatra & Rajan, 2020) for losses ``[m]``, a ray ``[m]`` and ``gram [m, m]``.

    With ``p = r l / sum r l``, non-uniformity ``mu = sum p ln(m p)``, ``a = r (ln(m p) - mu)`` and ``q = C a``,
    maximize

        q . beta         with  C beta >= 0 for the largest r l,  >= q where q <= 0       if mu is large (balance)
        sum of C beta    with  C beta >= 0  and  q . beta >= min(max q, 0)               otherwise (descent)

    over the simplex; without the last condition where it cannot be met.
    """
    m, products = len(losses), ray * losses
    share = products / products.sum()
    logs = np.log(np.maximum(m * share, np.finfo(float).tiny))
    mu = float((share * logs).sum())
    q = gram @ (ray * (logs - mu))
    if mu > TOLERANCE:
        least = np.zeros(m) if (q <= 0).all() else np.where(q > 0, -np.inf, q)
        least[products == products.max()] = 0
        kept = np.isfinite(least)
        attempts = [(q, gram[kept], least[kept])]
    else:
        restricted = np.vstack([gram, q]), np.append(np.zeros(m), min(q.max(), 0))
        attempts = [(gram.sum(0), *restricted), (gram.sum(0), gram, np.zeros(m))]
    for gain, rows, least in attempts:
        found = linprog(-gain, A_ub=-rows, b_ub=-least, A_eq=np.ones((1, m)), b_eq=[1], method="highs")
        if found.success:
            return found.x
    return ray
