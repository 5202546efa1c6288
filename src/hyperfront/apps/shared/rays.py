"""Rays as clients write them: a list of numbers, or a text such as ``"0.3, 0.7"``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hyperfront.apps.shared.refusal import Refusal


def numbers(written: Any, objectives: Sequence[str]) -> list[float]:
    """Read one number for each objective. The numbers are not checked here.

    >>> numbers("0.3, 0.7", ["cost", "risk"])
    [0.3, 0.7]
    """
    found = written
    if isinstance(written, str):
        try:
            found = [float(number) for number in written.strip("[] ").split(",")]
        except ValueError:
            raise Refusal("the ray is not understood", got=repr(written)[:80], expected='"0.3, 0.7"') from None
    if not isinstance(found, list) or not all(type(number) in (int, float) for number in found):
        raise Refusal("the ray is not a list of numbers", got=str(written)[:80])
    if len(found) != len(objectives):
        expected = f"{len(objectives)} numbers, for {', '.join(objectives)}"
        raise Refusal("the ray has the wrong length", got=len(found), expected=expected)
    return found
