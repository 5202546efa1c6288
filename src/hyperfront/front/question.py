"""Questions to a front: which loss or score to minimize or maximize, within which limits."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from torch import Tensor

from hyperfront.errors import SelectionError, shown
from hyperfront.errors.signatures import checked
from hyperfront.problem import Meaning

Limit = float | tuple[str, float]
"""A number, whose direction follows from the meaning of the loss or score, or ``("<=", x)`` or ``(">=", x)``."""
SIGNS = ("<=", ">=")


@checked
@dataclass(frozen=True)
class Question:
    """The goal, its direction, and the limits by name as pairs such as ``("<=", 0.05)``."""

    goal: str
    limits: Mapping[str, tuple[str, float]] = field(default_factory=dict)
    maximize: bool = False

    @checked
    def cost(self, columns: Mapping[str, Tensor]) -> Tensor:
        """The values ``[R]`` of the goal, with the sign that makes less better."""
        if self.goal not in columns:
            raise SelectionError("there is no column for the goal", got=", ".join(columns), expected=self.goal)
        return -columns[self.goal] if self.maximize else columns[self.goal]

    def __str__(self) -> str:
        """
        >>> str(Question("accuracy", {"gap": ("<=", 0.05)}, maximize=True))
        'maximize accuracy within gap <= 0.05'
        """
        within = ", ".join(f"{name} {sign} {limit:g}" for name, (sign, limit) in self.limits.items())
        return f"{'maximize' if self.maximize else 'minimize'} {self.goal}" + (f" within {within}" if within else "")


def read(
    minimize: str | None, maximize: str | None, subject_to: Mapping[str, Limit] | None, meanings: Mapping[str, Meaning]
) -> Question:
    """Make the question of :meth:`hyperfront.Front.select` from its arguments, or raise an error that says the fix."""
    if (minimize is None) == (maximize is None):
        raise SelectionError(
            "a selection has one goal",
            got="none" if minimize is None else f"minimize={shown(minimize)} and maximize={shown(maximize)}",
            expected="minimize=... or maximize=..., the name of a loss or score",
            fix=None if minimize is None else "make one of them a limit, subject_to={name: value}",
        )
    if not isinstance(subject_to, Mapping | None):
        raise SelectionError("limits are not understood", got=shown(subject_to), expected="subject_to={name: limit}")
    goal: Any = minimize if minimize is not None else maximize
    for name in [goal, *(subject_to or {})]:
        if not isinstance(name, str) or name not in meanings:
            raise SelectionError(
                "the front has no loss or score of this name", got=shown(name), expected="one of " + ", ".join(meanings)
            )
    better = meanings[goal].maximize
    if better is not None and better != (maximize is not None):
        raise SelectionError(
            f"{'more' if better else 'less'} of {goal!r} is better",
            got=f"{'minimize' if better else 'maximize'}={goal!r}",
            fix=f"front.select({'maximize' if better else 'minimize'}={goal!r})",
        )
    limits = {name: _limit(name, limit, meanings[name]) for name, limit in (subject_to or {}).items()}
    return Question(goal, limits, maximize is not None)


def _limit(name: str, given: Any, meaning: Meaning) -> tuple[str, float]:
    """The direction and the number of a limit."""
    sign, value = given if isinstance(given, tuple | list) and len(given) == 2 else (None, given)
    try:
        value = float(value)
    except (TypeError, ValueError, OverflowError, RuntimeError):
        value = math.nan
    if not math.isfinite(value) or sign not in (*SIGNS, None):
        raise SelectionError(
            f"the limit of {name!r} is not understood",
            got=shown(given),
            expected='a number, or a pair such as (">=", 0.9) or ("<=", 0.1)',
        )
    if sign is None and meaning.maximize is None:
        raise SelectionError(
            f"the limit of the score {name!r} has no direction",
            got=given,
            expected=f'(">=", {value:g}) or ("<=", {value:g})',
        )
    return (sign or (">=" if meaning.maximize else "<="), value)
