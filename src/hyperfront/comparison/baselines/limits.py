"""What settings of baselines may be."""

from __future__ import annotations

import math
from typing import Any

from hyperfront.errors import HyperfrontError


def at_least(settings: Any, **least: float) -> None:
    """An error for a setting that is no number of its kind, or below what it may be."""
    for name, low in least.items():
        value, default = getattr(settings, name), getattr(type(settings), name)
        whole = isinstance(default, int)
        good = isinstance(value, int if whole else int | float) and not isinstance(value, bool)
        if not good or not math.isfinite(value) or value < low:
            raise HyperfrontError(
                f"no {type(settings).__name__.lower()} has such {name}",
                got=repr(value),
                expected=f"{'an integer' if whole else 'a number'} >= {low}",
            )
