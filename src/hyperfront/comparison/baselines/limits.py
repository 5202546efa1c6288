"""Checks of the settings of baselines."""

from __future__ import annotations

import math
from typing import Any

from hyperfront.errors import HyperfrontError


def at_least(settings: Any, **least: float) -> None:
    """Raise an error for a setting of the wrong type, or below its smallest value."""
    for name, low in least.items():
        value, default = getattr(settings, name), getattr(type(settings), name)
        whole = isinstance(default, int)
        good = isinstance(value, int if whole else int | float) and not isinstance(value, bool)
        if not good or not math.isfinite(value) or value < low:
            raise HyperfrontError(
                f"the setting {name!r} of {type(settings).__name__} is out of range",
                got=repr(value),
                expected=f"{'an integer' if whole else 'a number'} >= {low}",
            )
