"""Random inputs of solvers, of every kind that matters, and a judge of the weights that EPO returns for them."""

from __future__ import annotations

import torch
from hypothesis import settings
from hypothesis import strategies as st
from torch import Tensor

from hyperfront.solvers import EPO, Status
from hyperfront.solvers.epo import RAY_FLOOR, program

KINDS = ("generic", "low rank", "rank 1", "duplicate", "opposite", "zero", "all zero", "unequal")
HARMLESS = ("generic", "low rank", "unequal")  # whose optimum is not a matter of rounding
seeds, kinds, objectives = st.integers(0, 2**32 - 1), st.sampled_from(KINDS), st.integers(2, 7)
quick = settings(max_examples=200)


def gradients(kind: str, R: int, m: int, generator: torch.Generator) -> Tensor:
    def normal(*shape: int) -> Tensor:
        return torch.randn(shape, generator=generator, dtype=torch.float64)

    G = normal(R, m, m + 3)
    if kind == "low rank":
        G = normal(R, m, max(2, m // 2))
    elif kind == "rank 1":
        G = normal(R, m, 1) * normal(R, 1, m)
    elif kind == "duplicate":
        G[:, 1] = G[:, 0]
    elif kind == "opposite":
        G[:, 1] = -G[:, 0]
    elif kind == "zero":
        G[:, 1] = 0
    elif kind == "all zero":
        G.zero_()
    elif kind == "unequal":
        G = G * 10 ** normal(R, m, 1).clamp(-2, 2)
    return G


def instances(kind: str, R: int, m: int, seed: int) -> tuple[Tensor, Tensor, Tensor]:
    """Losses, rays and Gram matrices; half the losses nearly on the ray, some rays with an entry of 1e-9."""
    generator = torch.Generator().manual_seed(seed)
    G = gradients(kind, R, m, generator)
    rays = torch.rand(R, m, generator=generator, dtype=torch.float64) + 1e-3
    rays[::3, 0] = 1e-9
    rays = rays / rays.sum(-1, keepdim=True)
    losses = torch.randn(R, m, generator=generator, dtype=torch.float64).exp()
    close = 1 + 1e-3 * torch.randn(R, m, generator=generator, dtype=torch.float64)
    losses[::2] = (close / floored(rays))[::2]
    return losses, rays, G @ G.mT


def floored(rays: Tensor) -> Tensor:
    rays = rays.clamp_min(RAY_FLOOR)
    return rays / rays.sum(-1, keepdim=True)


def lp(losses: Tensor, rays: Tensor, gram: Tensor, descent: float = 0.0) -> tuple[Tensor, Tensor, Tensor]:
    """EPO's program, rows and objective scaled to a largest entry of 1: (4) or (5), or with ``descent`` (6) or (5)."""
    share = floored(rays)
    c, A, b = program((share * losses).log(), share, gram, EPO().tolerance)
    lowered = ((b[:, -1:] == -torch.inf) & (descent == 1)).expand_as(b)
    cost = (gram @ torch.nn.functional.normalize(share * losses, p=1, dim=-1)[..., None])[..., 0]
    c = torch.where(lowered[:, 1:], cost, c)
    b = torch.cat([b[:, :-1].masked_fill(lowered[:, :-1], 0), b[:, -1:]], 1)
    size = A.abs().amax(-1).clamp_min(1e-300)
    return c / c.abs().amax(-1, keepdim=True).clamp_min(1e-300), A / size[..., None], b / size


def judge(
    losses: Tensor, rays: Tensor, gram: Tensor, weights: Tensor, status: Tensor, descent: float = 0.0
) -> tuple[Tensor, Tensor]:
    """Objective and largest violation of the program that the status names, for EPO whose ``descent`` is 0 or 1."""
    c, A, b = lp(losses, rays, gram, descent)
    b = b.clone()
    b[status == Status.RELAXED, -1] = -torch.inf
    slack = (A @ weights[..., None])[..., 0] - b
    return (c * weights).sum(-1), (-slack.amin(-1)).clamp_min(0)
