"""Rays that no point of the front meets: how far solvers end from the front there, and how balanced their losses are.

Each problem is ``l_j = (x - e_j)^T A_j (x - e_j) / s_j`` in 20 variables, with as many centers as objectives:

    simplex          unit vectors as centers, A_j = I: the front is their convex hull
    centers          random centers, A_j = I
    curved           unit vectors, one diagonal A for all objectives, from 0.2 to 5
    scales           unit vectors, A_j = I, and s_j from 0.3 to 3

A_j is the same for all j, so that the front is always the image of the centers' convex hull. Nearly all rays from
Dirichlet(1) ask there for a loss above any on the front. Every solver trains the same hypernetwork. At 40 rays:

    distance     of the weights to the hull, mean and largest
    x LS         the mean distance beside that of LS
    max r l      mean of the largest product r_j l_j
    HV           hypervolume; the reference is 1.1 times the largest losses at the centers; "-" beyond six objectives
    share        mean of uniformity beside the best uniformity of any point of the front at that ray
    on front     the same for the points of the front nearest to the weights: raising a loss off the front helps no more

``EPO(descent=0)`` solves the balance program alone. ``--rules`` adds other rules (``unmet/rules.py``). Every number is
a mean over seeds; the ratio to LS at each seed is in brackets.

    python benchmarks/unmet_rays.py --seeds 3
    python benchmarks/unmet_rays.py --seeds 3 --problems simplex --rules
"""

from __future__ import annotations

import argparse
from typing import NamedTuple

import torch
from torch import Tensor
from torch.func import functional_call, stack_module_state

import hyperfront as hf
from hyperfront import indicators, solvers
from hyperfront.solvers import Solver
from unmet.rules import RULES

SOLVERS: dict[str, Solver] = {
    "LS": hf.LS(),
    "EPO": hf.EPO(),
    "EPO(descent=0)": hf.EPO(descent=0),
    "Tchebycheff": solvers.Tchebycheff(),
    "SmoothTchebycheff": solvers.SmoothTchebycheff(),
}
VARIABLES, RAYS, BATCH, MOST = 20, 40, 16, 6
FRONT_STEPS = 400


class Quadratics(NamedTuple):
    """Centers ``[m, n]``, the diagonal of ``A`` as ``[n]``, scales ``[m]``."""

    centers: Tensor
    curvature: Tensor
    scales: Tensor

    def losses(self, x: Tensor) -> Tensor:
        """``[..., n]`` -> ``[..., m]``."""
        away = (x[..., None, :] - self.centers.to(x)).square() * self.curvature.to(x)
        return away.sum(-1) / self.scales.to(x)


def make(name: str, m: int) -> Quadratics:
    generator = torch.Generator().manual_seed(0)
    centers, flat = torch.eye(VARIABLES, dtype=torch.float64)[:m], torch.ones(VARIABLES, dtype=torch.float64)
    scales = flat[:m]
    if name == "centers":
        centers = torch.randn(m, VARIABLES, generator=generator, dtype=torch.float64) / VARIABLES**0.5
    if name == "curved":
        flat = 10 ** torch.empty(VARIABLES, dtype=torch.float64).uniform_(-0.7, 0.7, generator=generator)
    if name == "scales":
        scales = torch.logspace(-0.5, 0.5, m, dtype=torch.float64)
    return Quadratics(centers, flat, scales)


def nearest(x: Tensor, centers: Tensor) -> Tensor:
    """The hull's points nearest to ``x [R, n]``: the min-norm combinations of the centers seen from ``x``."""
    offsets = centers - x[:, None]
    ones = torch.ones_like(offsets[..., 0])  # MGDA looks at neither losses nor rays
    weights, _ = solvers.MGDA()(ones, ones, offsets @ offsets.mT)
    return weights @ centers


def best_uniformity(problem: Quadratics, rays: Tensor, steps: int) -> Tensor:
    """The best uniformity ``[R]`` on the front, by Adam from three starts in the hull."""
    starts, (R, m) = 3, rays.shape
    generator = torch.Generator().manual_seed(0)
    place = torch.randn(starts, R, m, generator=generator, dtype=torch.float64).requires_grad_()
    optimizer = torch.optim.Adam([place], lr=0.1)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, steps)
    best = torch.full((R,), -torch.inf, dtype=torch.float64)
    for _ in range(steps):
        losses = problem.losses(place.softmax(-1) @ problem.centers)
        found = indicators.uniformity(losses.flatten(0, 1), rays.repeat(starts, 1)).view(starts, R)
        optimizer.zero_grad()
        (-found.sum()).backward()
        optimizer.step()
        schedule.step()
        best = torch.maximum(best, found.detach().amax(0))
    return best


def train(problem: Quadratics, chosen: list[Solver], rays: Tensor, steps: int, seeds: int) -> Tensor:
    """The weights ``[solvers, seeds, R, n]`` at the rays: Algorithm 1 for all solvers and seeds at once, with their
    hypernetworks side by side in stacked parameters."""
    m = len(problem.centers)
    stated = hf.analytic(problem.losses, variables=VARIABLES, objectives=[f"l{j + 1}" for j in range(m)])
    started = []
    for seed in range(seeds):
        torch.manual_seed(seed)
        started.append(stated.model(hidden=100).hypernet)
    parameters, _ = stack_module_state(started * len(chosen))
    hypernets = torch.vmap(lambda own, rays: functional_call(started[0], own, (rays,)))
    optimizer = torch.optim.Adam(parameters.values(), lr=3e-3)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, steps)
    preferences, generators = hf.Dirichlet(1.0), [torch.Generator().manual_seed(seed) for seed in range(seeds)]
    for _ in range(steps):
        drawn = torch.stack([preferences.sample(BATCH, m, generator) for generator in generators]).float()
        theta = hypernets(parameters, drawn.repeat(len(chosen), 1, 1))
        x = theta.detach().double().requires_grad_()
        losses = problem.losses(x)
        grads = torch.stack([torch.autograd.grad(l.sum(), x, retain_graph=True)[0] for l in losses.unbind(-1)], -2)
        directions, own = [], drawn.flatten(0, 1)
        for solver, l, g in zip(chosen, losses.detach().chunk(len(chosen)), grads.chunk(len(chosen))):
            l, g = l.flatten(0, 1), g.flatten(0, 1)
            directions.append(
                torch.einsum("rj,rjn->rn", solver(l, own, g @ g.mT)[0].double(), g).view(seeds, BATCH, -1)
            )
        optimizer.zero_grad()
        theta.backward(torch.cat(directions).float() / BATCH)
        optimizer.step()
        schedule.step()
    theta = hypernets(parameters, rays.float().expand(len(chosen) * seeds, -1, -1))
    return theta.detach().double().view(len(chosen), seeds, len(rays), -1)


def row(problem: Quadratics, x: Tensor, rays: Tensor, best: Tensor) -> list[float]:
    near = nearest(x, problem.centers)
    losses, on_front = problem.losses(x), problem.losses(near)
    distance = (x - near).norm(dim=-1)
    reference = (1.1 * problem.losses(problem.centers).amax(0)).tolist()
    volume = float(indicators.hypervolume(losses, reference)) if len(reference) <= MOST else float("nan")
    shares = [float((indicators.uniformity(l, rays) / best).mean()) for l in (losses, on_front)]
    return [float(distance.mean()), float(distance.max()), float((rays * losses).amax(-1).mean()), volume, *shares]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--problems", nargs="+", default=["simplex", "centers", "curved", "scales"])
    parser.add_argument("--objectives", type=int, nargs="+", default=[5, 6, 10])
    parser.add_argument("--solvers", nargs="+", default=list(SOLVERS), choices=list(SOLVERS | RULES))
    parser.add_argument("--rules", action="store_true", help="other rules too")
    parser.add_argument("--steps", type=int, default=1500)
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--quick", action="store_true", help="smallest settings: shows in seconds that the script runs")
    options = parser.parse_args()
    if options.quick:
        options.problems, options.objectives, options.steps = ["simplex", "curved"], [3], 100
        options.rules = True
    names = [*options.solvers, *(RULES if options.rules else ())]
    torch.set_num_threads(1)
    print("| problem | m | solver | distance, mean | largest | x LS | max r l | HV | share | on front |")
    print("|---|---|---|---|---|---|---|---|---|---|")
    for name in options.problems:
        for m in options.objectives:
            problem = make(name, m)
            rays = hf.Dirichlet(1.0).sample(RAYS, m, torch.Generator().manual_seed(5)).double()
            best, base = best_uniformity(problem, rays, FRONT_STEPS // (8 if options.quick else 1)), None
            trained = train(
                problem, [(SOLVERS | RULES)[solver] for solver in names], rays, options.steps, options.seeds
            )
            for solver, each in zip(names, trained):
                found = torch.tensor([row(problem, x, rays, best) for x in each])
                base = found[:, 0] if solver == "LS" else base
                mean, largest, product, volume, share, on_front = found.mean(0).tolist()
                beside = "-"
                if base is not None:
                    ratios = " ".join(f"{ratio:.1f}" for ratio in (found[:, 0] / base).tolist())
                    beside = f"{mean / float(base.mean()):.1f} ({ratios})"
                line = f"| {name} | {m} | {solver} | {mean:.4f} | {largest:.4f} | {beside} | {product:.4f} "
                print(line + f"| {volume:.4g} | {share:.4f} | {on_front:.4f} |", flush=True)


if __name__ == "__main__":
    main()
