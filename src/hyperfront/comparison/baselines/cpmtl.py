"""Continuous Pareto MTL (Ma, Du & Matusik, ICML 2020): from a solution, expand along the tangent of the Pareto set.

At a Pareto stationary ``theta`` some weights ``alpha`` of the simplex make ``sum_j alpha_j g_j = 0``. Along a curve of
such points the derivative of that sum is zero, so its direction ``v`` satisfies

    H v = sum_j beta_j g_j    with  H = sum_j alpha_j hessian(l_j)    for some beta,

and ``beta = e_j`` is the direction in which objective ``j`` changes most for its curvature: ``<g_j, v> >= 0`` where
``H`` is positive, so ``theta - v`` lowers it; where it is not, ``v`` is turned round if need be. ``H`` is never formed:
MINRES (scipy) needs only its products with vectors, a backward pass through the gradient each. The result is a set of
points around every solution, and no map from rays to them.

The authors' steps have one length. From the sharp minima that long training ends in, such steps overshoot, and raise
the very objective that they are to lower: here a step that does is halved, a few times if need be, and then taken.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from hyperfront import kernels
from hyperfront.comparison.baselines.limits import at_least
from hyperfront.comparison.baselines.replay import own_stream, replayed
from hyperfront.errors import HyperfrontError
from hyperfront.model import ParetoModel
from hyperfront.model.hypernets import inner_products
from hyperfront.problem import Problem
from hyperfront.solvers.linalg.minnorm import min_norm
from hyperfront.storage.batches import Batch
from hyperfront.storage.nests import map_tensors, tensors


@dataclass(frozen=True)
class Expansion:
    """How to expand; the defaults are the authors', who took 10 steps along one objective."""

    steps: int = 5
    """Steps from each solution along each objective."""
    length: float = 0.1
    """Length of a step in weight space, at most."""
    halvings: int = 6
    """How often a step is halved, at most, that would raise its objective."""
    damping: float = 0.1
    """Added to the diagonal of the Hessian."""
    iterations: int = 50
    """Products with the Hessian for each tangent, at most."""
    tolerance: float = 1e-5
    """Relative residual at which MINRES stops."""
    rows: int = 2048
    """Training rows for the products; gradients and losses are of all rows."""

    def __post_init__(self) -> None:
        at_least(self, steps=1, length=0, damping=0, iterations=1, tolerance=0, rows=1, halvings=0)

    def expand(self, model: ParetoModel, problem: Problem, points: Tensor) -> Iterator[Tensor]:
        """The next points ``[n]`` after ``points [k, n]``: a solution, and what was reached from it so far. There
        are ``1 + m steps`` in all: the solution, then the steps along each objective in turn."""
        curvature = Curvature(model, problem, self.rows)
        start, here = points[0], points[-1]
        for number in range(len(points) - 1, problem.m * self.steps):
            objective, step = divmod(number, self.steps)
            here = self.step(curvature, here if step else start, objective)
            yield here

    def step(self, curvature: Curvature, theta: Tensor, objective: int) -> Tensor:
        """Where a step against the tangent leads, as short as it has to be for the objective to fall."""
        direction = self.tangent(curvature, theta, objective)
        direction, before = direction / direction.norm().clamp_min(1e-30), curvature.losses(theta)[objective]
        there = theta
        for halvings in range(self.halvings + 1):
            there = theta - self.length / 2**halvings * direction
            if curvature.losses(there)[objective] < before:
                break
        return there

    def tangent(self, curvature: Curvature, theta: Tensor, objective: int) -> Tensor:
        """``v [n]`` with ``(H + damping) v = g_j``, turned so that it leads to more of objective ``j``."""
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


class Curvature:
    """Gradients and Hessian-vector products of the objectives as functions of ``theta [n]``.

    Dropout rests, and BatchNorm looks at the batch.
    """

    def __init__(self, model: ParetoModel, problem: Problem, rows: int):
        self.model, self.problem, self.rows = model, problem, rows
        self.source = problem.train.source
        self.batch = self._sample()
        self._summed: tuple[Tensor, list[Any]] | None = None

    @torch.no_grad()
    def losses(self, theta: Tensor) -> Tensor:
        """``[m]``, over all training rows."""
        if not self.problem.has_data:
            return torch.stack(self._losses(theta, self.batch))
        values = (measure.value(total) for measure, total in zip(self.problem.measures.values(), self._totals(theta)))
        return torch.stack([unit * value for unit, value in zip(self.problem.units.slope, values)])

    def gradients(self, theta: Tensor) -> Tensor:
        """``[m, n]``, of the losses over all training rows. Those are functions of sums, ``l = f(sum_b s_b(theta))``
        over batches ``b`` (:mod:`hyperfront.problem.losses`), so ``g = sum_b d(f's . s_b) / d theta``."""
        total = torch.zeros(self.problem.m, len(theta), dtype=torch.float64, device=theta.device)
        slopes = self._slopes(theta) if self.problem.has_data else None
        for batch in self.source.batches(self.rows, theta.device):
            leaf = theta.detach().requires_grad_()
            parts = self._losses(leaf, batch) if slopes is None else self._linear(leaf, batch, slopes)
            for j, part in enumerate(parts):
                total[j] += _gradient(part, leaf, retain_graph=j + 1 < len(parts)).double()
        return total.to(theta)

    def _slopes(self, theta: Tensor) -> list[tuple[Tensor, ...]]:
        """``f'`` of every loss, at the sums over all rows."""
        slopes = []
        for measure, total, unit in zip(
            self.problem.measures.values(), self._totals(theta), self.problem.units.slope, strict=True
        ):
            leaves = map_tensors(lambda t: t.detach().requires_grad_(), total)
            value = unit * measure.value(leaves)
            slopes.append(torch.autograd.grad(value, tensors(leaves), materialize_grads=True))
        return slopes

    @torch.no_grad()
    def _totals(self, theta: Tensor) -> list[Any]:
        """The sums of every loss over all rows. Those of the last ``theta`` are known: a step looks at its losses, and
        the next one begins with its gradients."""
        if self._summed and self._summed[0] is theta:
            return self._summed[1]
        measures, sums = [*self.problem.measures.values()], list[Any]()
        if not all(measure.additive for measure in measures):
            raise HyperfrontError(
                "CPMTL needs losses that are functions of sums over rows",
                got="a loss that gathers all outputs",
                fix="declare it as hyperfront.SetLoss, or leave cpmtl out",
            )
        for batch in self.source.batches(self.rows, theta.device):
            found = [map_tensors(Tensor.double, own) for own in self._sums(theta, batch)]
            sums = [m.merge(*pair) for m, *pair in zip(measures, sums, found)] if sums else found
        self._summed = theta, sums
        return sums

    def _linear(self, theta: Tensor, batch: Batch, slopes: list[tuple[Tensor, ...]]) -> list[Tensor]:
        each = (zip(slope, tensors(own)) for slope, own in zip(slopes, self._sums(theta, batch)))
        return [torch.stack([(slope * s.double()).sum() for slope, s in pairs]).sum() for pairs in each]

    def _sums(self, theta: Tensor, batch: Batch) -> list[Any]:
        """What the batch contributes to the sums of every loss."""
        with self._at_rest():
            output = self.model.target.network(theta)(self.problem.inputs(batch))
            return [measure.statistics(output, batch) for measure in self.problem.measures.values()]

    def hessian(self, theta: Tensor, alpha: Tensor) -> Callable[[Tensor], Tensor]:
        """``v -> H v [n]`` on the sample of rows; the gradient that is differentiated is taken once for all ``v``."""
        leaf = theta.detach().requires_grad_()
        with own_stream(theta.device):
            with kernels.plain():  # fused operations have no second derivative
                gradient = _gradient(alpha @ torch.stack(self._losses(leaf, self.batch)), leaf, create_graph=True)
            return replayed(lambda v: _gradient(gradient @ v, leaf, retain_graph=True), theta)

    def _sample(self) -> Batch:
        generator, count = torch.Generator().manual_seed(0), getattr(self.source, "rows", self.rows)
        return next(self.source.epoch(min(self.rows, count), generator, self.model.device, 0))

    def _losses(self, theta: Tensor, batch: Batch) -> list[Tensor]:
        with self._at_rest():
            return list(self.problem.each_loss(self.model.target.network(theta), batch))

    @contextmanager
    def _at_rest(self) -> Iterator[None]:
        target = self.model.target
        mode = target.training
        target.eval()
        for layer in target.norms.values():
            layer.train()
        try:
            yield
        finally:
            target.train(mode)


def _gradient(value: Tensor, theta: Tensor, **options: Any) -> Tensor:
    """Zero where ``value`` does not depend on ``theta``."""
    if not value.requires_grad:
        return torch.zeros_like(theta)
    return torch.autograd.grad(value, theta, materialize_grads=True, **options)[0]
