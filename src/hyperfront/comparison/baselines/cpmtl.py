"""Continuous Pareto MTL (Ma, Du & Matusik, ICML 2020): from a solution, expand along the tangent of the Pareto set.

At a Pareto stationary ``theta`` some weights ``alpha`` of the simplex make ``sum_j alpha_j g_j = 0``. Along a curve of
such points the derivative of that sum is zero, so its direction ``v`` satisfies

    H v = sum_j beta_j g_j    with  H = sum_j alpha_j hessian(l_j)    for some beta,

and ``beta = e_j`` is the direction in which objective ``j`` changes most for its curvature: ``<g_j, v> >= 0`` where
``H`` is positive, so ``theta - v`` lowers it; where it is not, ``v`` is reversed if necessary. ``H`` is never formed:
MINRES (scipy) needs only its products with vectors; each is one backward pass through the gradient. The result is a set
of points around every solution, and no map from rays to them.

The authors' steps have one length. From the sharp minima of long training, such steps overshoot and raise the objective
that they should lower. Here such a step is halved, up to :attr:`Expansion.halvings` times, and then taken.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from hyperfront import preferences
from hyperfront.comparison.baselines import per_ray
from hyperfront.comparison.baselines.curvature import Curvature
from hyperfront.comparison.baselines.limits import at_least
from hyperfront.comparison.baselines.separate import as_run
from hyperfront.comparison.method import ComparisonJob, Method, Trained, seconds_in
from hyperfront.errors import BusyError, HyperfrontError
from hyperfront.model import ParetoModel
from hyperfront.model.hypernets import inner_products
from hyperfront.problem import Problem
from hyperfront.solvers.linalg.minnorm import min_norm
from hyperfront.storage import checkpoint, locks
from hyperfront.training.runs import Run

if TYPE_CHECKING:
    from hyperfront.comparison.protocol import Protocol


FILE = "points.safetensors"


@dataclass(frozen=True)
class Expansion:
    """Settings of an expansion, with the authors' values as defaults; they took 10 steps along one objective."""

    steps: int = 5
    """Steps from each solution along each objective."""
    length: float = 0.1
    """The largest length of a step in weight space."""
    halvings: int = 6
    """The most times that a step is halved because it would raise its objective."""
    damping: float = 0.1
    """Added to the diagonal of the Hessian."""
    iterations: int = 50
    """The most products with the Hessian for each tangent."""
    tolerance: float = 1e-5
    """Relative residual at which MINRES stops."""
    rows: int = 2048
    """Training rows for the products; gradients and losses are of all rows."""

    def __post_init__(self) -> None:
        at_least(self, steps=1, length=0, damping=0, iterations=1, tolerance=0, rows=1, halvings=0)

    def expand(self, model: ParetoModel, problem: Problem, points: Tensor) -> Iterator[Tensor]:
        """Yield the next points ``[n]`` after ``points [k, n]``: a solution and the points reached from it so far.
        There are ``1 + m steps`` in all: the solution, then the steps along each objective in turn."""
        curvature = Curvature(model, problem, self.rows)
        start, here = points[0], points[-1]
        for number in range(len(points) - 1, problem.m * self.steps):
            objective, step = divmod(number, self.steps)
            here = self.step(curvature, here if step else start, objective)
            yield here

    def step(self, curvature: Curvature, theta: Tensor, objective: int) -> Tensor:
        """Take a step against the tangent, shortened until the objective falls."""
        direction = self.tangent(curvature, theta, objective)
        direction, before = direction / direction.norm().clamp_min(1e-30), curvature.losses(theta)[objective]
        there = theta
        for halvings in range(self.halvings + 1):
            there = theta - self.length / 2**halvings * direction
            if curvature.losses(there)[objective] < before:
                break
        return there

    def tangent(self, curvature: Curvature, theta: Tensor, objective: int) -> Tensor:
        """Solve ``(H + damping) v = g_j`` for ``v [n]``, with the sign that increases objective ``j``."""
        try:
            from scipy.sparse.linalg import LinearOperator, minres
        except ImportError:
            raise HyperfrontError("CPMTL needs scipy", fix="pip install 'hyperfront[compare]'") from None

        grads = curvature.gradients(theta)
        alpha = min_norm(inner_products(grads[:, None]))[0].to(theta)

        hessian = curvature.hessian(theta, alpha)

        def product(v: np.ndarray) -> np.ndarray:
            return hessian(torch.from_numpy(np.ravel(v)).to(theta)).double().cpu().numpy()

        operator: Any = LinearOperator((len(theta), len(theta)), matvec=product, dtype=np.float64)  # pyrefly: ignore
        wanted = grads[objective].double().cpu().numpy()
        found, _ = minres(operator, wanted, shift=-self.damping, rtol=self.tolerance, maxiter=self.iterations)
        return torch.from_numpy(found if wanted @ found >= 0 else -found).to(theta)


BASE = next(method for method in per_ray.METHODS if method.solver == "ls")
"""CPMTL expands from the models that this method trains."""


def _train(job: ComparisonJob) -> Trained:
    base, _ = BASE.train(replace(job, method=BASE))
    starts, options, m = base.model.hypernet(base.model.hypernet.knots).detach(), job.options, job.problem.m
    expand, settings = partial(options.expand, base.model, job.problem), job.protocol.settings(job.method.name)
    patches, busy = [], None
    with job.bar(options.steps * m * len(starts), "tangent") as bar:
        for number, start in enumerate(starts):
            own = job.folder / f"from-{number}"
            try:
                with locks.alone_in(own):
                    patches.append(_patch(own / FILE, start, settings, expand, bar))
            except BusyError as error:
                busy = error
    if busy:  # the caller may have other work until another process has finished this part
        raise busy
    spent = sum(seconds for _, seconds in patches)
    theta = torch.cat([points for points, _ in patches])
    history = [*base.history, {"status": {}, "seconds": spent}]
    return as_run(job.problem, theta, preferences.rays(len(theta), m), job.recipe, history), {"expansion": spent}


def _patch(
    file: Path,
    start: Tensor,
    settings: Mapping[str, Any],
    expand: Callable[[Tensor], Iterator[Tensor]],
    progress: Callable[[], Any],
) -> tuple[Tensor, float]:
    """Compute all points that one solution expands to, and the seconds spent on them. The file is written after each
    point: an interrupted call continues with the stored points of the same weights."""
    points, before = start[None], 0.0
    if file.exists():
        tensors, document = checkpoint.read(file)
        known = tensors.get("points", start[:0])
        if document.get("settings") == settings and len(known) and torch.equal(known[0], start.cpu()):
            points, before = known.to(start), document["seconds"]
    began, seconds = time.perf_counter(), before
    for point in expand(points):
        points, seconds = torch.cat([points, point[None]]), before + time.perf_counter() - began
        checkpoint.write(file, {"points": points}, {"settings": settings, "seconds": seconds})
        progress()
    return points, seconds


def _spent(job: ComparisonJob) -> float:
    """Training time of the base models plus the time of the points expanded so far."""
    settings = job.protocol.settings(job.method.name)
    patches = [checkpoint.read(file)[1] for file in job.folder.glob(f"from-*/{FILE}")]
    expanding = sum(patch["seconds"] for patch in patches if patch.get("settings") == settings)
    return seconds_in(replace(job, method=BASE).folder) + expanding


def _seconds_after(protocol: Protocol, problem: Problem, run: Run) -> float:
    """The seconds of an expansion from the first model, estimated from two steps along each objective. The median
    counts, since programs are compiled in the first step."""
    options = protocol.options_of(METHOD.name)
    theta, marks = run.model.hypernet(run.model.hypernet.knots)[0].detach(), [time.perf_counter()]
    for _ in replace(options, steps=2).expand(run.model, problem, theta[None]):
        marks.append(time.perf_counter())
    return options.steps * problem.m * median(after - before for before, after in pairwise(marks))


METHOD = Method(
    name="cpmtl",
    label="CPMTL",
    summary=f"expansion from models of {BASE.name}",
    family="cpmtl",
    train=_train,
    one_per_ray=True,
    gives="points",
    starts_from=BASE.name,
    options=Expansion,
    spent=_spent,
    seconds_after=_seconds_after,
)
