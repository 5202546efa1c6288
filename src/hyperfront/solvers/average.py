"""An exponential moving average of the losses at each ray of a fixed set."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from hyperfront import preferences
from hyperfront.errors import RayError, check_number
from hyperfront.errors.signatures import checked
from hyperfront.solvers.base import check_shapes
from hyperfront.solvers.chain import LossTransform

SAME = 1e-5  # rays of the step are in single precision


@dataclass(eq=False)
class Average(LossTransform):
    """``a_k <- decay a_k + (1 - decay) l`` at each step that draws ray ``k``; the solver sees ``a_k / (1 - decay^n)``.

    Mini-batch losses are noisy, and their small differences decide between EPO's programs or on Tchebycheff's worst
    objective. Each average belongs to one ray, so rays must come from a fixed set, as with
    :class:`~hyperfront.preferences.FixedRays`. ``n`` counts the steps that drew the ray, and the division (as in Adam)
    makes the average unbiased from the first step on. Slopes are 1: the solver's weights apply to the losses.

    >>> average = Average(((0.5, 0.5),), decay=0.5)
    >>> ray = torch.tensor([[0.5, 0.5]])
    >>> average(torch.tensor([[1.0, 2.0]]), ray)[0], average(torch.tensor([[4.0, 2.0]]), ray)[0]
    (tensor([[1., 2.]]), tensor([[3., 2.]]))
    """

    rays: Sequence[Sequence[float]]
    decay: float = 0.9

    fixed_slopes = True

    def __post_init__(self) -> None:
        self.rays = preferences.as_tuples(self.rays)
        check_number("decay of Average", self.decay, 0, 1, without=1)
        table = torch.tensor(self.rays, dtype=torch.float64)
        self.known = preferences.validate(table, table.shape[-1])
        self.load({})

    def __call__(self, losses: Tensor, rays: Tensor) -> tuple[Tensor, Tensor]:
        check_shapes(self, losses, rays)
        now, known, sums, steps = (t.to(losses.device) for t in (losses.double(), self.known, self.sums, self.steps))
        if known.shape[1] != losses.shape[1]:
            raise RayError("the average's rays have another number of objectives", got=list(known.shape))
        gap, place = (rays.double()[:, None] - known).abs().amax(-1).min(1)
        if (gap > SAME).any():
            stranger = rays[int(gap.argmax())].tolist()
            raise RayError(
                "a ray of the step is not in the set whose losses are averaged",
                got=[round(entry, 6) for entry in stranger],
                expected=f"one of {len(known)} rays",
                fix="train with preferences=FixedRays.of(rays) and Average(rays.tolist())",
            )
        drawn = torch.nn.functional.one_hot(place, len(known)).to(now)  # [R, K]; a ray may be drawn twice
        count = drawn.sum(0)[:, None]
        mean = drawn.mT @ now / count.clamp_min(1)
        self.sums = torch.where(count > 0, self.decay * sums + (1 - self.decay) * mean, sums)
        self.steps = steps + (count[:, 0] > 0)
        unbiased = self.sums / (1 - self.decay ** self.steps.clamp_min(1))[:, None]
        return unbiased[place].to(losses.dtype), torch.ones_like(losses)

    def state(self) -> dict[str, Any]:
        return {"sums": self.sums, "steps": self.steps}

    @checked
    def load(self, state: dict[str, Any]) -> None:
        self.sums: Tensor = state.get("sums", torch.zeros_like(self.known))
        self.steps: Tensor = state.get("steps", torch.zeros(len(self.known), dtype=torch.float64))
