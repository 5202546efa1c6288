"""The meaning of a loss or score for readers: its label, unit, direction and bounds."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from hyperfront.errors import ProblemError, shown
from hyperfront.errors.signatures import checked

Bounds = tuple[float, float]


@checked
@dataclass(frozen=True)
class Meaning:
    """The label, unit, direction and bounds of one loss or score of a front.

    >>> Meaning("log loss", unit="nats").title
    'log loss (nats)'
    """

    label: str
    unit: str = ""
    maximize: bool | None = False
    """Whether more is better; None if it is unknown, as for scores in files of older versions."""
    bounds: Bounds | None = None
    """The smallest and largest possible value; for a mean over rows or a gap, of a single row."""

    @property
    def title(self) -> str:
        """The label, with the unit in parentheses."""
        return f"{self.label} ({self.unit})" if self.unit else self.label

    @property
    def directed(self) -> str:
        """The title with the better direction.

        >>> Meaning("error").directed, Meaning("accuracy", maximize=True).directed
        ('error (less is better)', 'accuracy (more is better)')
        """
        if self.maximize is None:
            return self.title
        return f"{self.title} ({'more' if self.maximize else 'less'} is better)"

    def document(self) -> dict[str, Any]:
        """The meaning as JSON, as :meth:`read` reads it."""
        return asdict(self) | {"bounds": None if self.bounds is None else list(self.bounds)}

    @classmethod
    @checked
    def read(cls, document: Mapping[str, Any]) -> Meaning:
        """Read the JSON of :meth:`document`; raise a :class:`ProblemError` for anything else."""
        if sorted(map(str, document)) != ["bounds", "label", "maximize", "unit"]:
            raise ProblemError("the meaning of a loss or score is damaged", got=shown(document))
        given: dict[str, Any] = {**document, "bounds": check_bounds(document["bounds"])}
        return cls(**given)


def check_bounds(bounds: Any) -> Bounds | None:
    """Return bounds as two finite numbers in order, or None for none."""
    if bounds is None:
        return None
    try:
        low, high = (float(bound) for bound in bounds)
    except (TypeError, ValueError):
        low, high = math.nan, math.nan
    if not (math.isfinite(low) and math.isfinite(high) and low < high):
        raise ProblemError(
            "the bounds of a loss or score are not a range",
            got=bounds,
            expected="bounds=(smallest, largest) possible value, such as (0, 1)",
        )
    return low, high
