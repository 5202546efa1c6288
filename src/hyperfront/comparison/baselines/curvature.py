"""Gradients and Hessian-vector products of a problem's objectives, as CPMTL needs them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor

from hyperfront import kernels
from hyperfront.comparison.baselines.replay import own_stream, replayed
from hyperfront.errors import HyperfrontError
from hyperfront.model import ParetoModel
from hyperfront.model.substitution import called
from hyperfront.problem import Problem
from hyperfront.storage.batches import Batch
from hyperfront.storage.nests import map_tensors, tensors


class Curvature:
    """Gradients and Hessian-vector products of the objectives as functions of ``theta [n]``.

    Dropout is off, and BatchNorm uses the statistics of the batch.
    """

    def __init__(self, model: ParetoModel, problem: Problem, rows: int):
        self.model, self.problem, self.rows = model, problem, rows
        self.source = problem.train.source
        self.batch = self._sample()
        self._summed: tuple[Tensor, list[Any]] | None = None

    @torch.no_grad()
    def losses(self, theta: Tensor) -> Tensor:
        """Losses ``[m]`` over all training rows."""
        if not self.problem.has_data:
            return torch.stack(self._losses(theta, self.batch))
        values = (measure.value(total) for measure, total in zip(self.problem.measures.values(), self._totals(theta)))
        return torch.stack([unit * value for unit, value in zip(self.problem.units.slope, values)])

    def gradients(self, theta: Tensor) -> Tensor:
        """Gradients ``[m, n]`` of the losses over all training rows. Losses are functions of sums over batches ``b``,
        ``l = f(sum_b s_b(theta))`` (:mod:`hyperfront.problem.losses`), so ``g = sum_b d(f's . s_b) / d theta``."""
        total = torch.zeros(self.problem.m, len(theta), dtype=torch.float64, device=theta.device)
        slopes = self._slopes(theta) if self.problem.has_data else None
        for batch in self.source.batches(self.rows, theta.device):
            leaf = theta.detach().requires_grad_()
            parts = self._losses(leaf, batch) if slopes is None else self._linear(leaf, batch, slopes)
            for j, part in enumerate(parts):
                total[j] += _gradient(part, leaf, retain_graph=j + 1 < len(parts)).double()
        return total.to(theta)

    def _slopes(self, theta: Tensor) -> list[tuple[Tensor, ...]]:
        """The derivative ``f'`` of every loss at the sums over all rows."""
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
        """Compute the sums of every loss over all rows. The sums at the last ``theta`` are stored, since a step ends
        with losses at the point where the next step needs gradients."""
        if self._summed and self._summed[0] is theta:
            return self._summed[1]
        measures, sums = [*self.problem.measures.values()], list[Any]()
        if not all(measure.additive for measure in measures):
            raise HyperfrontError(
                "CPMTL needs losses that are functions of sums over rows",
                got="a loss that gathers all outputs",
                fix="declare the loss as hyperfront.problem.SetLoss, or leave cpmtl out",
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
        """The contribution of a batch to the sums of every loss."""
        with self._at_rest():
            output = called(self.model.target.network(theta), self.problem.inputs(batch))
            return [measure.statistics(output, batch) for measure in self.problem.measures.values()]

    def hessian(self, theta: Tensor, alpha: Tensor) -> Callable[[Tensor], Tensor]:
        """Return the function ``v -> H v [n]`` on the sample of rows. The gradient is computed once for all ``v``."""
        leaf = theta.detach().requires_grad_()
        with own_stream(theta.device):
            with kernels.unfused():  # fused operations have no second derivative
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
    """The gradient of ``value``; zero if it does not depend on ``theta``."""
    if not value.requires_grad:
        return torch.zeros_like(theta)
    return torch.autograd.grad(value, theta, materialize_grads=True, **options)[0]
