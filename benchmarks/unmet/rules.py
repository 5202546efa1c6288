"""Other rules for rays that cannot be met, beside that of EPO; ``unmet_rays.py --solvers`` trains with them.

paper              the paper's program (4) with its own bound, on the largest product alone
min-norm(0.6)      0.4 of EPO's weights and 0.6 of the min-norm weights, which lower all losses
projected          near the front, the weights whose step is nearest to -G^T v, with
                   v = .3 a + .12 lambda / t, a the anchor (2), lambda the min-norm weights, and t the length of their
                   gradient beside the mean one; the closer (t < 1/3), the more of it, else EPO(descent=0)
direct(k)          no solver: the gradient of -uniformity + k distance, exact where all A_j = I and s_j = 1. Its
                   weights have any sign. It shows what this hypernetwork and training can reach at all.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

import hyperfront as hf
from hyperfront.solvers import Solver
from hyperfront.solvers.base import named_where_finite
from hyperfront.solvers.epo import RAY_FLOOR, program
from hyperfront.solvers.linalg.linprog import maximize
from hyperfront.solvers.linalg.minnorm import min_norm

Result = tuple[Tensor, Tensor]


@dataclass(frozen=True)
class Rule(Solver):
    """A rule that sees the logarithms of products, shares of rays and the Gram matrix."""

    needs_gram = True
    joint = False
    positive = True
    convention = "inverse"

    def __call__(self, losses: Tensor, rays: Tensor, gram: Tensor | None = None) -> Result:
        assert gram is not None
        share = rays.double().clamp_min(RAY_FLOOR)
        share = share / share.sum(-1, keepdim=True)
        logs = (losses.double().clamp_min(1e-30) * share).log()
        return self.weights(logs, share, gram.double()).to(losses.dtype), named_where_finite(losses)

    def weights(self, logs: Tensor, rays: Tensor, gram: Tensor) -> Tensor:
        raise NotImplementedError


def anchor(logs: Tensor, rays: Tensor) -> Tensor:
    """Equation (2) of EPO."""
    above = logs.log_softmax(-1) + math.log(logs.shape[-1])
    return rays * (above - (above.exp() * above).mean(-1, keepdim=True))


def shortest(gram: Tensor) -> tuple[Tensor, Tensor]:
    """The min-norm weights, and the length of their gradient."""
    weights = min_norm(gram)
    square = (weights[:, None] @ gram @ weights[..., None])[..., 0]
    return weights, square.clamp_min(0).sqrt()


@dataclass(frozen=True)
class Paper(Rule):
    def weights(self, logs: Tensor, rays: Tensor, gram: Tensor) -> Tensor:
        c, A, b = program(logs, rays, gram, 1e-4)
        balance = b[:, -1:] == -torch.inf
        q = A[:, -1]
        level = (q.amax(-1, keepdim=True) <= 0) | (logs == logs.amax(-1, keepdim=True))
        bound = q.masked_fill(q > 0, -torch.inf).masked_fill(level, 0)
        return maximize(c, gram, torch.where(balance, bound, b[:, :-1]))[0]


@dataclass(frozen=True)
class MinNorm(Rule):
    share: float = 0.6

    def weights(self, logs: Tensor, rays: Tensor, gram: Tensor) -> Tensor:
        return hf.EPO()((logs.exp() / rays), rays, gram)[0].lerp(min_norm(gram), self.share)


@dataclass(frozen=True)
class Projected(Rule):
    balance: float = 0.3
    descent: float = 0.12
    near: float = 1 / 3

    def weights(self, logs: Tensor, rays: Tensor, gram: Tensor) -> Tensor:
        lowering, length = shortest(gram)
        away = length / gram.diagonal(dim1=1, dim2=2).mean(-1, keepdim=True).sqrt()
        v = self.balance * anchor(logs, rays)
        v = v + torch.where(away > 1e-9, self.descent / away.clamp_min(1e-9), 0) * lowering
        q = (gram @ v[..., None])[..., 0]
        seen = gram - q[:, :, None] - q[:, None] + (v * q).sum(-1)[:, None, None]  # Gram matrix of the g_j - G^T v
        far = (away / self.near).clamp_max(1)
        return min_norm(seen).lerp(hf.EPO(descent=0)(logs.exp() / rays, rays, gram)[0], far)


@dataclass(frozen=True)
class Direct(Rule):
    price: float = 1.0

    def weights(self, logs: Tensor, rays: Tensor, gram: Tensor) -> Tensor:
        lowering, length = shortest(gram)
        return anchor(logs, rays) / logs.exp().sum(-1, keepdim=True) + self.price * lowering / length.clamp_min(1e-12)


RULES: dict[str, Solver] = {
    "paper": Paper(),
    "EPO(descent=0.4)": hf.EPO(descent=0.4),
    "min-norm(0.6)": MinNorm(),
    "projected": Projected(),
    **{f"direct({price})": Direct(price) for price in (0.7, 1.0, 1.4)},
}
