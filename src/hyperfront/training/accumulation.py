"""Accumulation: a step on a batch that is too large for the memory, micro-batch by micro-batch.

The losses and gradients of the micro-batches are averaged *before* the solver sees them, so its program is that of the
whole batch, also for EPO. Rays go in turn. At each ray, a solver with fixed weights takes one backward pass through the
target for every micro-batch, and another solver one for each objective, since its weights are known at the end only.
"""

from __future__ import annotations

from contextlib import nullcontext

import torch
from torch import Tensor
from torch.nn.modules.batchnorm import _BatchNorm

from hyperfront.errors import ProblemError
from hyperfront.kernels.factors import Factors
from hyperfront.model import ParetoModel
from hyperfront.model.substitution import Network
from hyperfront.problem import Problem
from hyperfront.problem.losses import Mean
from hyperfront.storage import nests
from hyperfront.storage.batches import Batch, rows
from hyperfront.training.passes import Member, passes
from hyperfront.training.precision import cast, widened
from hyperfront.training.shares import own_rows
from hyperfront.training.step import Step, StepResult
from hyperfront.training.team import Team


class AccumulatedStep:
    """Takes the steps of ``step``, each in ``count`` micro-batches."""

    def __init__(self, step: Step, count: int):
        self.step, self.count = step, count
        check_accumulation(step.problem, step.model)

    def __call__(self, rays: Tensor, batch: Batch, factors: Factors | None = None) -> StepResult:
        step, target = self.step, self.step.model.target
        shared = step.shared()
        split = step.split and len(rays) > 1
        parts = step.problem.divided(batch, len(rays)) if split else batch
        theta = step.model.hypernet.factored(rays, factors)
        statistics = target.statistics_for(rays, theta)
        found, group = [], []
        for r in range(len(rays)):
            leaf = theta[r : r + 1].detach().requires_grad_()
            member = Member(rays[r : r + 1], leaf, tuple, nullcontext)
            part = nests.map_tensors(lambda t: t[r], parts) if split else parts  # noqa: B023 (called at once)
            self._accumulate(member, statistics[r], part, len(rays), shared)
            group.append(member)
            if not step.solver.joint or r == len(rays) - 1:
                found.append(step.solved(group, len(rays), shared, keep=False))
                group = []
        return step.finished(theta, found, shared)

    def _accumulate(self, member: Member, statistics: Tensor, batch: Batch, R: int, shared: list) -> None:
        """Leave the mean losses of the micro-batches in the member, and the mean gradients of each or all of them."""
        step, whole = self.step, rows(batch)
        losses: Tensor | None = None
        sums: list[list[Tensor]] = []
        for index in range(self.count):
            part = own_rows(batch, Team(index, self.count), 1)
            network = Network(step.model.target, step.model.target.assembled(member.leaf.squeeze(0), statistics))
            with network.kept():
                with cast(member.leaf.device, step.dtype):
                    columns = [widened(loss).reshape(-1) for loss in step.problem.each_loss(network, part)]
                values = torch.stack(columns, dim=1)
                if step.solver.fixed_weights:
                    weights = step.weigh(values.detach(), member.rays, None)[0] * step.scale / R
                    columns = [(weights * values).sum(1)]
                found = passes(step.model, columns, [member.leaf, *shared], keep=False)
            share = rows(part) / whole
            with torch.no_grad():
                losses = share * values.detach() + (0 if losses is None else losses)
                if not sums:
                    sums = [[share * row for row in each] for each in found]
                else:
                    for each, more in zip(sums, found):
                        for row, further in zip(each, more):
                            row.add_(further, alpha=share)
        assert losses is not None
        member.columns = losses.unbind(1)
        if step.solver.fixed_weights:
            member.gradients = [each[0] for each in sums]
        else:
            member.passes = sums


def check_accumulation(problem: Problem, model: ParetoModel) -> None:
    """Raise an error where micro-batches cannot add up to the whole batch."""
    target = model.target
    layers = [name for name, layer in target.skeleton.named_modules() if isinstance(layer, _BatchNorm)]
    if found := layers if target.batchnorm == "shared" else target.normalization.adaptive:
        raise ProblemError(
            "BatchNorm normalizes by its batch, and a micro-batch has other statistics than the whole batch",
            got=f"accumulation with the layer {found[0]!r}",
            expected="a module without BatchNorm, or with frozen BatchNorm",
            fix="accumulate=1, or GroupNorm or LayerNorm in the module",
        )
    for name, loss in problem.measures.items():
        if not isinstance(loss.measure, Mean):
            raise ProblemError(
                f"the loss {name!r} is no mean over rows, so its values on micro-batches have another mean",
                got=f"accumulation of a {type(loss.measure).__name__}",
                expected="means over rows",
                fix="accumulate=1, or several processes, which sum its statistics",
            )
