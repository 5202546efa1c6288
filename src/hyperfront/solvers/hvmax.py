"""Hypervolume maximization: the rays of a step share out the front among themselves."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import normalize

from hyperfront.errors import HyperfrontError, check_number
from hyperfront.errors.tables import as_numbers
from hyperfront.solvers.base import Solver, check_per_objective, check_shapes, meaningful, named, per_objective, rescale
from hyperfront.solvers.hypervolume import gradient, layers

MARGIN = 0.1  # the reference is this share of the step's largest loss beyond it, so that the extremes count too


@dataclass(frozen=True)
class HVMax(Solver):
    """PHN-HVI (Hoang et al., AAAI 2023): raise the hypervolume of a step's losses, each along its ray:

        w_i = v_i / |v_i| - cosine d cos(l_i, r_i) / d l_i,        v_i = -dHV / dl_i

    then scaled so that ``|w_i|`` sums to 1. ``HV`` is the hypervolume of the non-dominated layer of point ``i``, so
    that dominated points move too. The reference point is ``reference``, or 1.1 times the largest loss of the step
    where that is larger. The weights of a ray depend on the other rays of the step, which needs at least two rays; 8 or
    16 are typical. A larger ``cosine`` keeps losses closer to the direction of their ray: at 0 rays have no meaning.

    >>> losses = torch.tensor([[0.0, 1.0], [1.0, 0.0]])
    >>> HVMax(cosine=0.0, reference=(3.0, 2.0))(losses, torch.full((2, 2), 0.5))[0]
    tensor([[0.5000, 0.5000],
            [0.3333, 0.6667]])
    """

    cosine: float = 5.0
    reference: float | tuple[float, ...] | None = None

    convention = "direction"

    def __post_init__(self) -> None:
        check_number("cosine of HVMax", self.cosine, 0)
        if self.reference is None:
            return
        check_per_objective("reference of HVMax", self.reference)
        if self.cosine and (as_numbers("reference of HVMax", self.reference) <= 0).any():
            raise HyperfrontError(
                "no loss is below the reference of HVMax",
                got=self.reference,
                expected="> 0, since losses are not negative",
            )

    @property
    def least(self) -> float | None:
        return 0.0 if self.cosine else None  # directions of losses are angles between positive ones

    def __call__(self, losses: Tensor, rays: Tensor, gram: Tensor | None = None) -> tuple[Tensor, Tensor]:
        check_shapes(self, losses, rays)
        if len(losses) < 2:
            raise HyperfrontError(
                "HVMax needs several rays in a step, to share out the front among them",
                got="1 ray",
                expected="at least 2",
                fix="fit(..., rays_per_step=16)",
            )
        valid = meaningful(self, losses)
        points = losses.detach().double().masked_fill(~valid[:, None], 0)
        largest = points.amax(0)
        size = largest.abs()
        size = torch.where(size > 0, size, size.amax())  # a loss that is zero at all rays gets the size of another
        corner = largest + MARGIN * size
        if self.reference is not None:
            corner = torch.maximum(corner, per_objective("reference", self.reference, points))
        volume = normalize(gradient(points, corner, layers(points)), dim=-1)
        weights = rescale(volume - self.cosine * _cosine_gradient(points, rays.double()), rays)
        return torch.where(valid[:, None], weights, rays).to(losses.dtype), named(valid, losses)


def _cosine_gradient(losses: Tensor, rays: Tensor) -> Tensor:
    """Compute ``d cos(l, r) / dl = (r / |r| - cos(l, r) l / |l|) / |l|``, per ray."""
    length = losses.norm(dim=-1, keepdim=True).clamp_min(torch.finfo(losses.dtype).tiny)
    towards, here = normalize(rays, dim=-1), losses / length
    return (towards - (towards * here).sum(-1, keepdim=True) * here) / length
