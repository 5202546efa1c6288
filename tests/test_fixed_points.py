"""Where the solvers come to rest: on the front, and where on it. Each ray has a point of its own, no hypernetwork."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor
from torch.func import functional_call, jacrev, vmap

import hyperfront as hf
from hyperfront import indicators
from hyperfront.problem import Problem
from hyperfront.problem.registry import build
from hyperfront.solvers import COSMOS, MGDA, PBI, PMTL, HVMax, SmoothTchebycheff, Status, Tchebycheff
from hyperfront.zoo.truths import curve

RAYS = {2: hf.rays(9, m=2), 3: hf.rays(10, m=3)}
ON_THE_FRONT = [hf.LS(), Tchebycheff(), SmoothTchebycheff(), MGDA(), hf.EPO()]


def quadratics() -> Problem:
    """``|x|^2`` and ``|x - e_1|^2``: the front is ``(t^2, (1 - t)^2)``, convex, 1/6 above the axes."""
    truth = curve(lambda t: torch.stack([t.square(), (1 - t).square()], -1), [(0.0, 1.0)], hypervolume=5 / 6)

    def function(x: Tensor) -> Tensor:
        moved = x - torch.eye(3, dtype=x.dtype)[0]
        return torch.stack([x.square().sum(), moved.square().sum()])

    return hf.analytic(function, variables=3, truth=truth)


def descend(solver: hf.LS, problem: Problem, rays: Tensor, *, steps: int = 1000, lr: float = 0.15) -> Tensor:
    """Losses ``[R, m]`` after gradient descent with a falling step, from random points."""
    point = problem.make_target().double()

    def function(z: Tensor) -> Tensor:
        return problem.function(functional_call(point, {"z": z}, ()))

    generator = torch.Generator().manual_seed(0)
    z = 0.3 * torch.randn(len(rays), len(point.z), generator=generator, dtype=torch.float64)
    for step in range(steps):
        losses, grads = vmap(function)(z), vmap(jacrev(function))(z)
        weights, status = solver(losses, rays, grads @ grads.mT)
        assert not status.eq(Status.INVALID).any()
        z = z - lr * (1 + math.cos(math.pi * step / steps)) / 2 * (weights[..., None] * grads).sum(1)
    return vmap(function)(z)


def weakly_optimal(losses: Tensor) -> Tensor:
    """Where a loss is at its minimum, 0: not all of them can fall, so MGDA stops, though others could."""
    return losses.amin(-1) < 1e-6


PROBLEMS = {"quadratics": quadratics(), "fonseca": build("fonseca", variables=3), "dtlz2": build("dtlz2", m=3)}


@pytest.mark.parametrize("solver", ON_THE_FRONT, ids=lambda solver: type(solver).__name__)
@pytest.mark.parametrize("name", PROBLEMS)
def test_fixed_points_are_on_the_front(solver: hf.LS, name: str) -> None:
    problem = PROBLEMS[name]
    rays = RAYS[problem.m]
    losses = descend(solver, problem, rays)
    done = weakly_optimal(losses) if isinstance(solver, MGDA) else torch.zeros(len(rays), dtype=torch.bool)
    assert problem.truth.distance(losses)[~done].max() < 2e-3
    if solver.convention == "inverse":  # and where the ray says, on convex and concave fronts alike
        assert indicators.uniformity(losses, rays).min() > (0.9 if isinstance(solver, SmoothTchebycheff) else 0.999)


@pytest.mark.parametrize("solver", [PBI(), COSMOS(20.0)], ids=lambda solver: type(solver).__name__)
@pytest.mark.parametrize("name", ["fonseca", "dtlz2"])
def test_scalarizations_by_direction_end_on_their_ray(solver: PBI, name: str) -> None:
    problem = PROBLEMS[name]
    rays = RAYS[problem.m]
    losses = descend(solver, problem, rays)
    assert problem.truth.distance(losses).max() < 5e-3
    assert indicators.cross_angle(losses, rays).max() < 2


@pytest.mark.parametrize("name", ["quadratics", "fonseca", "dtlz2"])
def test_pmtl_ends_on_the_front_in_its_own_cone(name: str) -> None:
    problem = PROBLEMS[name]
    rays = RAYS[problem.m]
    losses = descend(PMTL(), problem, rays)
    assert problem.truth.distance(losses)[~weakly_optimal(losses)].max() < 5e-3
    u, l = (torch.nn.functional.normalize(t, dim=-1) for t in (rays, losses))
    assert ((l @ u.mT).amax(-1) - (l * u).sum(-1)).max() < 2e-3  # no other ray is nearer


def test_hypervolume_maximization_spreads_points_over_the_front() -> None:
    problem = PROBLEMS["fonseca"]
    losses = descend(HVMax(cosine=0.0, reference=1.0), problem, RAYS[2])
    assert problem.truth.distance(losses).max() < 2e-3
    even = indicators.hypervolume(problem.truth.points[torch.linspace(0, 399, 9).long()], (1.0, 1.0))
    assert indicators.hypervolume(losses, (1.0, 1.0)) > 0.97 * even


class TestProposition1:
    """Section 4 of the paper: where the Hessian of ``sum_i r_i l_i`` has full rank, its minimizer is smooth in ``r``.

    For ``l_i = (x - a_i)^T A_i (x - a_i) / 2`` it is ``theta(r) = H^-1 sum_i r_i A_i a_i`` with ``H = sum_i r_i A_i``,
    and by the implicit function theorem ``d theta / d r_i = -H^-1 grad l_i(theta)``.
    """

    generator = torch.Generator().manual_seed(0)
    root = torch.randn(3, 4, 4, generator=generator, dtype=torch.float64)
    A = root @ root.mT + torch.eye(4, dtype=torch.float64)
    a = torch.randn(3, 4, generator=generator, dtype=torch.float64)

    def function(self, x: Tensor) -> Tensor:
        moved = x - self.a.to(x)
        return (moved[:, None] @ self.A.to(x) @ moved[..., None])[:, 0, 0] / 20

    def theta(self, r: Tensor) -> Tensor:
        scaled = r[:, None, None] * self.A
        return torch.linalg.solve(scaled.sum(0), (scaled @ self.a[..., None]).sum(0))[:, 0]

    def test_the_map_is_smooth_with_the_derivative_of_the_implicit_function_theorem(self) -> None:
        for r in hf.rays(10, m=3):
            theta = self.theta(r)
            slopes = jacrev(self.function)(theta)
            weights, _ = hf.LS()(self.function(theta)[None], r[None])
            assert torch.allclose(weights @ slopes, torch.zeros(1, 4, dtype=torch.float64), atol=1e-12)
            hessian = (r[:, None, None] * self.A).sum(0) / 10
            assert torch.allclose(jacrev(self.theta)(r), -torch.linalg.solve(hessian, slopes.mT), atol=1e-9)

    def test_a_hypernetwork_learns_it(self) -> None:
        problem = hf.analytic(self.function, variables=4, objectives=["first", "second", "third"])
        torch.manual_seed(0)
        model = problem.model(hidden=50)
        hf.fit(
            model,
            problem,
            solver=hf.LS(),
            preferences=hf.Dirichlet(1.0),
            epochs=15,
            rays_per_step=16,
            lr=1e-2,
            callbacks=[],
            validate_every=15,
        )
        rays = hf.rays(20, m=3)
        exact = torch.stack([self.theta(r) for r in rays])
        error = (model.weights(rays).detach().double() - exact).norm(dim=-1)
        assert error.max() < 0.02 * exact.norm(dim=-1).mean()
