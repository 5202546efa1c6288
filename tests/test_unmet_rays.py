"""Training where no point of the front meets a ray: EPO stays near the front, and as balanced as the front allows."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

import hyperfront as hf
from hyperfront import indicators, solvers

M, VARIABLES = 5, 20
CENTERS = torch.eye(VARIABLES, dtype=torch.float64)[:M]


def losses(x: Tensor) -> Tensor:
    """``|x - e_j|^2``, whose front is the image of the centers' convex hull."""
    return (x[..., None, :] - CENTERS.to(x)).square().sum(-1)


def trained(solver: hf.LS, rays: Tensor) -> Tensor:
    """The weights ``[R, n]`` of a hypernetwork at the rays."""
    problem = hf.analytic(losses, variables=VARIABLES, objectives=[f"l{j}" for j in range(M)])
    torch.manual_seed(0)
    model = problem.model(hidden=100)
    settings = {"epochs": 15, "rays_per_step": 16, "lr": 3e-3, "validate_every": 15, "callbacks": []}
    hf.fit(model, problem, solver=solver, preferences=hf.Dirichlet(1.0), **settings)
    return model.weights(rays.float()).detach().double()


def on_front(x: Tensor) -> Tensor:
    """The nearest points of the hull."""
    offsets = CENTERS - x[:, None]
    ones = torch.ones_like(offsets[..., 0])
    return solvers.MGDA()(ones, ones, offsets @ offsets.mT)[0] @ CENTERS


@pytest.mark.slow
def test_epo_ends_near_the_front_and_better_balanced_than_linear_scalarization() -> None:
    rays = hf.Dirichlet(1.0).sample(40, M, torch.Generator().manual_seed(5)).double()
    found = {name: trained(solver, rays) for name, solver in (("ls", hf.LS()), ("epo", hf.EPO()))}
    distance = {name: (x - on_front(x)).norm(dim=-1).mean().item() for name, x in found.items()}
    assert distance["epo"] < min(0.006, 3 * distance["ls"])
    balanced = {name: indicators.uniformity(losses(on_front(x)), rays).mean().item() for name, x in found.items()}
    assert balanced["epo"] > 0.88 > balanced["ls"]  # the best on the front have a mean of 0.893
