"""Pareto multi-task learning: every ray has its own cone of the loss space."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor
from torch.nn.functional import normalize

from hyperfront import preferences
from hyperfront.errors import HyperfrontError, check_number
from hyperfront.kernels import on_gpu
from hyperfront.solvers.base import Solver, Status, check_gram, check_space, meaningful, named, rescale
from hyperfront.solvers.linalg.minnorm import min_norm
from hyperfront.solvers.linalg.planar import shortest_in_plane

SAME = 1e-6  # unit vectors this close are the same ray


@dataclass(frozen=True)
class PMTL(Solver):
    """Pareto MTL (Lin et al., NeurIPS 2019); in a hypernetwork, controllable Pareto MTL (Lin et al., 2020).

    Unit vectors ``u_i`` along the rays divide the loss space into cones: in the cone of ray ``k``, ``u_k`` is the
    nearest of them, so the constraints ``(u_i - u_k) . l <= 0`` hold. Their gradients are ``sum_j (u_i - u_k)_j g_j``.

    - Outside its cone, a ray takes the shortest convex combination of the gradients of violated constraints. It returns
      to the cone, even if that raises losses; the paper finds its initial solution like this.
    - Inside, it takes the shortest convex combination of the objectives' gradients and the gradients of the constraints
      that are close to violation.

    Both give weights ``w_j`` of the losses, some of them negative, scaled so that ``|w|`` sums to 1. The paper runs the
    two phases one after the other. Here every step chooses the phase by the losses, since a solver has no memory.

    The ``u_i`` are the ``references`` if given (the paper's baseline), else the rays of the step. A ray meets the front
    anywhere inside its cone, so more rays are met more exactly. ``tolerance`` is the sine of the angle to the border of
    the cone within which a constraint counts as close to violation.

    >>> losses, rays, gram = torch.tensor([[2.0, 1.0]]), torch.tensor([[0.5, 0.5]]), torch.eye(2)[None]
    >>> PMTL(references=((0.5, 0.5), (0.6, 0.4)))(losses, rays, gram)[0]  # outside: too much of the first loss
    tensor([[ 0.4505, -0.5495]])
    """

    references: tuple[tuple[float, ...], ...] | None = None  # pyrefly: ignore[bad-override] (frozen)
    tolerance: float = 1e-3
    space: Literal["weights", "hypernetwork"] = "weights"  # pyrefly: ignore[bad-override] (frozen)

    needs_gram = True
    convention = "direction"

    @property
    def joint(self) -> bool:  # pyrefly: ignore[bad-override]
        return self.references is None  # then the cones depend on the rays of the step

    def __post_init__(self) -> None:
        check_space(self)
        check_number("tolerance of PMTL", self.tolerance, 0, 1)
        if self.references is not None:
            object.__setattr__(self, "references", preferences.as_tuples(self.references))

    @property
    def least(self) -> float:
        return 0.0  # cones are of directions of positive losses

    def __call__(self, losses: Tensor, rays: Tensor, gram: Tensor | None = None) -> tuple[Tensor, Tensor]:
        gram, others = check_gram(self, losses, rays, gram), self._others(rays)
        if losses.shape[1] == 2 and on_gpu(losses):
            from hyperfront.kernels.gpu.pmtl import pays, pmtl_on_gpu  # needs CUDA

            if pays(others):
                kinds = {"floored": int(Status.FLOORED), "invalid": int(Status.INVALID)}
                solved = pmtl_on_gpu(losses.detach(), rays, gram, others, tolerance=self.tolerance, same=SAME, **kinds)
                return solved[0], solved[1].masked_fill((losses < 0).any(-1), int(Status.INVALID))
        finite = gram.isfinite().all(-1).all(-1) & meaningful(self, losses)
        points = losses.detach().double().masked_fill(~finite[:, None], 0)
        rows = _rows(points, normalize(rays.double(), dim=-1), others, self.tolerance)
        gram = gram.masked_fill(~finite[:, None, None], 0)
        alpha = shortest_in_plane(rows @ _root(gram)) if gram.shape[1] == 2 else min_norm(rows @ gram @ rows.mT)
        weights = rescale((alpha[:, None] @ rows)[:, 0], rays)
        return torch.where(finite[:, None], weights, rays).to(losses.dtype), named(finite, losses)

    def _others(self, rays: Tensor) -> Tensor:
        if self.references is not None:
            return _directions(self.references, rays.shape[1], rays.device)
        if len(rays) < 2:
            raise HyperfrontError(
                "PMTL needs several rays to divide the loss space into cones",
                got="1 ray in the step, and no references",
                expected="at least 2 rays",
                fix="fit(..., rays_per_step=16), or PMTL(references=hyperfront.rays(5, m).tolist())",
            )
        return normalize(rays.double(), dim=-1)


@functools.lru_cache(maxsize=8)
def _directions(references: tuple[tuple[float, ...], ...], m: int, device: torch.device) -> Tensor:
    """Return unit vectors along the references, checked and copied once, since a captured step can do neither."""
    given = preferences.validate(torch.tensor(references, dtype=torch.float64), m)
    return normalize(given, dim=-1).to(device)


def _root(gram: Tensor) -> Tensor:
    """Compute ``L [R, 2, 2]`` with ``L L^T ~ gram``, in units of its trace, even if rounding made ``gram``
    indefinite."""
    trace = gram.diagonal(dim1=1, dim2=2).sum(-1)[:, None, None]
    gram = gram / torch.where(trace > 0, trace, 1)
    first = gram[:, 0, 0].clamp_min(0).sqrt()
    cross = torch.where(first > 0, gram[:, 0, 1] / first, 0)
    second = (gram[:, 1, 1] - cross.square()).clamp_min(0).sqrt()
    return torch.stack([first, torch.zeros_like(first), cross, second], -1).view(-1, 2, 2)


def _rows(losses: Tensor, own: Tensor, others: Tensor, tolerance: float) -> Tensor:
    """Make the weights ``[R, m + K, m]`` of the vectors whose shortest convex combination is to be found.

    Vectors that take no part are replaced by copies of others, which does not change the convex hull.
    """
    apart = others - own[:, None]  # [R, K, m]
    distance = (normalize(apart, dim=-1) @ normalize(losses, dim=-1)[..., None])[..., 0]
    distance = distance.masked_fill(apart.norm(dim=-1) < SAME, -torch.inf)
    worst, which = distance.max(-1, keepdim=True)
    outside = worst > tolerance
    m = losses.shape[1]
    rows = torch.cat([torch.eye(m, dtype=own.dtype, device=own.device).expand(len(own), m, m), apart], 1)
    part = torch.cat([(~outside).expand(-1, m), torch.where(outside, distance > tolerance, distance >= -tolerance)], 1)
    copied = torch.where(outside, m + which, 0)[..., None].expand(-1, 1, m)
    return torch.where(part[..., None], rows, rows.gather(1, copied))
