"""Shares: every process takes some rows of each batch, and the step of all of them is the step on the whole batch.

========================== =========================================================================================
a mean over rows           Each rank computes it on its rows; the step averages values and gradients.
additive statistics        They are summed over the ranks before the value is computed from them.
BatchNorm                  Mean and variance of a ray's batch are those of the rows of all ranks.
no mean and no statistics  It is refused: the mean of its values on some rows each is not its value on all rows.
========================== =========================================================================================
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from hyperfront.errors import LossError, ProblemError
from hyperfront.kernels.factors import Factors
from hyperfront.model import ParetoModel
from hyperfront.model.derivatives import retried
from hyperfront.model.substitution import Network, called
from hyperfront.problem import Problem
from hyperfront.problem.described import Loss
from hyperfront.problem.losses import Mean, Measure
from hyperfront.problem.sources import LoaderSource, Source, TensorSource
from hyperfront.storage.batches import Batch, refuse_uncut, rows, take
from hyperfront.storage.nests import map_tensors
from hyperfront.training import ranks
from hyperfront.training.batch_statistics import Summed, over_all_rows
from hyperfront.training.step import Step, StepResult
from hyperfront.training.team import Team

TOLERANCES = {torch.float64: 1e-9, torch.float32: 1e-4}
"""The largest relative differences by rounding between a loss and the mean of its values on parts of a batch."""


def own_rows(batch: Batch, team: Team, parts: int) -> Batch:
    """Take the rank's rows of a batch: the same share of each of the ``parts`` into which rays split it."""
    refuse_uncut(batch, "shared among processes or micro-batches")
    count = rows(batch)
    each, rest = divmod(count, parts)
    if rest or each < team.size:
        raise ProblemError(
            "a batch has too few rows for the processes or micro-batches of this job",
            got=f"{count} rows for {parts} parts, each in {team.size} shares",
            expected=f"a multiple of {parts} rows, at least {parts * team.size}",
            fix="drop such a batch (DataLoader(..., drop_last=True)), or change its size",
        )
    start, stop = (each * edge // team.size for edge in (team.rank, team.rank + 1))
    return take(batch, torch.arange(count).view(parts, each)[:, start:stop].flatten())


def batches_are_even(source: Source) -> bool:
    """Whether all training batches have the same number of rows, of which every rank has the same share."""
    return isinstance(source, TensorSource) or bool(
        isinstance(source, LoaderSource) and source.batch_size and not source.counted
    )


def shared_problem(problem: Problem) -> Problem:
    """Return the problem as a step of several ranks sees it: each loss is that of the rows of all ranks."""
    even = batches_are_even(problem.train.source)
    found = {name: _over_ranks(name, loss, even) for name, loss in problem.measures.items()}
    return replace(problem, measures=found)


def _over_ranks(name: str, loss: Loss, even: bool) -> Loss:
    measure = loss.measure
    if not measure.additive:
        raise LossError(
            f"the loss {name!r} is a function of all rows at once, which no process has",
            got=type(measure).__name__,
            expected="a mean over rows, or a SetLoss, whose statistics are summed over the processes",
        )
    return loss if even and isinstance(measure, Mean) else replace(loss, of=_OverRanks(measure))


@dataclass(frozen=True)
class _OverRanks(Measure):
    """A measure of the rows of all ranks, from their statistics."""

    measure: Measure

    def statistics(self, output: Any, batch: Batch) -> Any:
        return self.measure.statistics(output, batch)

    def value(self, statistics: Any) -> Tensor:
        return self.measure.value(statistics)

    def __call__(self, output: Any, batch: Batch) -> Tensor:
        return self.measure.value(map_tensors(_total, self.measure.statistics(output, batch)))


def _total(own: Tensor) -> Tensor:
    """The sum over the ranks. Every rank computes the same value from it, and the step averages gradients over the
    ranks: so the gradient of a rank's own part is multiplied by their number, without another message."""
    total = Summed.apply(own.detach())
    if not own.is_floating_point():  # a count
        return total
    scaled = ranks.world_size() * own
    return total + (scaled - scaled.detach())


class SharedStep:
    """The step of a rank: ``run`` takes ``step``, whose ``problem`` is a :func:`shared_problem`."""

    def __init__(self, run: Callable[..., StepResult], step: Step, team: Team):
        self.run, self.target = run, step.model.target
        step.ranks = team.size

    def __call__(self, rays: Tensor, batch: Batch, factors: Factors | None = None) -> StepResult:
        with over_all_rows(self.target.normalization):
            result = self.run(rays, batch, factors)
        shared = self.target.shared()
        ranks.follow_first(shared[spec.name] for spec in self.target.tensors if spec.role == "buffer")
        return result


@torch.no_grad()
def check_means(problem: Problem, model: ParetoModel, rays: Tensor, batch: Batch, size: int) -> None:
    """Raise an error for a loss that is no mean over rows and declares no statistics.

    Its value at the first ray on the whole ``batch`` is compared with the mean of its values on ``size`` parts, in
    evaluation mode, where no row depends on another one.
    """
    means = {name: loss for name, loss in problem.measures.items() if isinstance(loss.measure, Mean)}

    @retried  # for losses that take derivatives of the output
    def values(network: Network, part: Batch) -> dict[str, Tensor]:
        output = called(network, problem.inputs(part))
        return {name: loss(output, part).double() for name, loss in means.items()}

    def measured(part: Batch) -> Mapping[str, Tensor]:
        return model.target.map(values, model.hypernet(rays[:1]), rays[:1], part, split=False)

    model.eval()
    whole = measured(batch)
    parts = [own_rows(batch, Team(rank, size), 1) for rank in range(size)]
    shares = torch.tensor([rows(part) / rows(batch) for part in parts], dtype=torch.float64)
    found = [measured(part) for part in parts]
    tolerance = TOLERANCES.get(rays.dtype, 1e-2)
    for name in means:
        mean = sum(float(share) * float(values[name]) for share, values in zip(shares, found))
        value = float(whole[name])
        if abs(mean - value) > tolerance * max(abs(value), abs(mean), 1e-12):
            raise LossError(
                f"the loss {name!r} is no mean over rows, so it cannot be computed on some rows at a time",
                got=f"{value:.6g} on a batch, and {mean:.6g} as the mean of its values on {size} parts of it",
                expected="a mean over rows, or a loss that declares its statistics",
                fix="hyperfront.problem.SetLoss(statistics_of, value_of): its statistics are summed over the processes",
            )
