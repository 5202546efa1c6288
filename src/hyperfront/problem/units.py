"""The units of objectives: they turn the value of a loss function into the loss of solvers and fronts."""

from __future__ import annotations

import functools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from hyperfront.errors import ProblemError


@dataclass(frozen=True)
class Units:
    """Solvers and fronts use the loss ``(value_j - ideal_j) / scale_j`` of objective ``j``, or
    ``(ideal_j - value_j) / scale_j`` where it is maximized. The checkpoint stores the units."""

    scale: tuple[float, ...]
    ideal: tuple[float, ...]
    maximize: tuple[bool, ...]

    @classmethod
    def of(
        cls,
        objectives: Sequence[str],
        scale: Mapping[str, float] | None,
        ideal: Mapping[str, float] | None,
        maximize: Sequence[str],
    ) -> Units:
        """Make units from values by name; the scale defaults to 1 and the ideal to 0. Errors name the objective."""
        scale, ideal = dict(scale or {}), dict(ideal or {})
        for name in [*scale, *ideal, *maximize]:
            if name not in objectives:
                raise ProblemError(
                    "units for an unknown objective", got=name, expected="one of " + ", ".join(objectives)
                )
        if not all(0 < value < math.inf for value in scale.values()):
            raise ProblemError("a scale must be positive", got=scale)
        if not all(map(math.isfinite, ideal.values())):
            raise ProblemError("an ideal value must be finite", got=ideal)
        if missing := [name for name in maximize if name not in ideal]:
            raise ProblemError(
                f"{missing[0]} is maximized, but has no ideal value to measure the loss from",
                expected=f"ideal={{{missing[0]!r}: the best value it can have}}",
            )
        return cls(
            scale=tuple(float(scale.get(name, 1)) for name in objectives),
            ideal=tuple(float(ideal.get(name, 0)) for name in objectives),
            maximize=tuple(name in maximize for name in objectives),
        )

    def apply(self, values: Tensor) -> Tensor:
        """Convert values ``[..., m]`` of the objectives to losses ``[..., m]``."""
        if self.trivial:
            return values
        ideal, slope = (_constant(each, values.dtype, values.device) for each in (self.ideal, self.slope))
        return (values - ideal) * slope

    @property
    def slope(self) -> tuple[float, ...]:
        return tuple((-1.0 if flag else 1.0) / scale for flag, scale in zip(self.maximize, self.scale))

    @property
    def trivial(self) -> bool:
        return all(s == 1 for s in self.scale) and not any(self.ideal) and not any(self.maximize)


@functools.cache
def _constant(values: tuple[float, ...], dtype: torch.dtype, device: torch.device) -> Tensor:
    """Copy the values to the device once: a copy in every step would make the CPU wait for the GPU."""
    with torch.inference_mode(False):  # training uses the same tensor
        return torch.tensor(values, dtype=dtype, device=device)
