"""Losses and scores of a table: of all rows, of the rows with one label, and gaps between groups.

A batch is ``(numbers, categories, target, group)``, where group 0 is none. The network's output gives a *quantity* for
every row, such as its error; a *rate* is the mean of a quantity over some rows, and a *gap* is the largest difference
of a rate between two groups (:mod:`hyperfront.problem.gaps`). Quantities for training use probabilities and have
gradients; quantities for reading use the decision, which is the positive class above a probability of 1/2.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from hyperfront.problem import Gap, Measure, SetLoss

Batch = Any
Quantity = Callable[[Tensor, Batch], Tensor]
Rows = Callable[[Batch], Tensor]
BINS = 10
"""Bins of the calibration error."""


def everyone(batch: Batch) -> Tensor:
    return torch.ones_like(batch[2], dtype=torch.bool)


def positives(batch: Batch) -> Tensor:
    return batch[2] == 1


def negatives(batch: Batch) -> Tensor:
    return batch[2] == 0


def probability(output: Tensor, batch: Batch) -> Tensor:
    return output.sigmoid()


def decision(output: Tensor, batch: Batch) -> Tensor:
    return (output > 0).to(output)


def rejection(of: Quantity) -> Quantity:
    """One minus a quantity."""
    return lambda output, batch: 1 - of(output, batch)


def error(of: Quantity) -> Quantity:
    """The distance of a quantity from the label."""
    return lambda output, batch: (of(output, batch) - batch[2]).abs()


def log_loss(output: Tensor, batch: Batch) -> Tensor:
    return F.binary_cross_entropy_with_logits(output, batch[2].to(output), reduction="none")


def class_log_loss(output: Tensor, batch: Batch) -> Tensor:
    """``-log p_y``, for several classes."""
    return -output.log_softmax(-1).gather(-1, batch[2][..., None]).squeeze(-1)


def class_error(output: Tensor, batch: Batch) -> Tensor:
    """``1 - p_y``, for several classes."""
    return 1 - output.softmax(-1).gather(-1, batch[2][..., None]).squeeze(-1)


def class_mistake(output: Tensor, batch: Batch) -> Tensor:
    return (output.argmax(-1) != batch[2]).to(output)


def class_brier(output: Tensor, batch: Batch) -> Tensor:
    """Half of the squared distance of the probabilities from the class, between 0 and 1."""
    hot = torch.zeros_like(output).scatter(-1, batch[2][..., None], 1.0)
    return (output.softmax(-1) - hot).square().sum(-1) / 2


def mean(quantity: Quantity) -> Callable[[Tensor, Batch], Tensor]:
    """The mean of a quantity over all rows."""
    return lambda output, batch: quantity(output, batch).mean()


def rate(quantity: Quantity, rows: Rows) -> SetLoss:
    """The mean of a quantity over some rows; 0 without such rows."""

    def sums(output: Tensor, batch: Batch) -> Tensor:
        values, chosen = quantity(output, batch), rows(batch)
        return torch.stack([(values * chosen).sum(), chosen.sum().to(values)])

    return SetLoss(sums, lambda found: found[0] / found[1].clamp_min(1))


def gap(quantity: Quantity, rows: Rows, groups: int) -> Gap:
    """The largest difference of the mean of a quantity between two groups, over some rows."""
    return Gap(quantity, lambda batch: rows(batch) & _is_in(groups, batch))


def balanced(quantity: Quantity, classes: int) -> SetLoss:
    """The mean over the classes of the mean of a quantity over the rows of a class."""

    def sums(output: Tensor, batch: Batch) -> Tensor:
        own = batch[2] == torch.arange(classes, device=output.device)[:, None]
        return torch.stack([(quantity(output, batch) * own).sum(-1), own.sum(-1).to(output)])

    def value(found: Tensor) -> Tensor:
        total, count = found
        return (total / count.clamp_min(1)).sum() / (count > 0).sum().clamp_min(1)

    return SetLoss(sums, value)


def miscalibration(groups: int) -> SetLoss:
    """``max over groups |mean probability - share of positives|``; without groups, of all rows."""

    def sums(output: Tensor, batch: Batch) -> Tensor:
        own = _is_in(groups, batch) if groups else everyone(batch)[None]
        excess = output.sigmoid() - batch[2]
        return torch.stack([(excess * own).sum(-1), own.sum(-1).to(output)])

    return SetLoss(sums, lambda found: (found[0] / found[1].clamp_min(1)).abs().amax())


def calibration_error() -> SetLoss:
    """``sum over bins of (rows in the bin / all rows) |mean probability - share of positives|``."""

    def sums(output: Tensor, batch: Batch) -> Tensor:
        chance = output.sigmoid()
        own = (chance * BINS).long().clamp(0, BINS - 1) == torch.arange(BINS, device=output.device)[:, None]
        return torch.stack([((chance - batch[2]) * own).sum(-1), own.sum(-1).to(chance)])

    return SetLoss(sums, lambda found: found[0].abs().sum() / found[1].sum())


def explained() -> SetLoss:
    """``R^2 = 1 - sum (f - y)^2 / sum (y - mean y)^2``."""

    def sums(output: Tensor, batch: Batch) -> Tensor:
        target = batch[2].double()
        return torch.stack(
            [
                (output.double() - target).square().sum(),
                target.square().sum(),
                target.sum(),
                torch.ones_like(target).sum(),
            ]
        )

    def value(found: Tensor) -> Tensor:
        wrong, squares, total, count = found
        return 1 - wrong / (squares - total.square() / count)

    return SetLoss(sums, value)


@dataclass(frozen=True)
class Scaled(Measure):
    """A measure divided by a number, so that losses of a regression do not depend on the unit of the target."""

    of: Measure
    by: float

    def statistics(self, output: Any, batch: Batch) -> Any:
        return self.of.statistics(output, batch)

    def value(self, statistics: Any) -> Tensor:
        return self.of.value(statistics) / self.by

    def __call__(self, output: Any, batch: Batch) -> Tensor:
        return self.of(output, batch) / self.by


def _is_in(groups: int, batch: Batch) -> Tensor:
    """The rows of each group, ``[K, B]``."""
    return batch[3] == torch.arange(1, groups + 1, device=batch[3].device)[:, None]
