"""Checks of the arguments of built-in problems."""

from __future__ import annotations

from typing import Any

from hyperfront.errors import ProblemError


def check(fine: bool, argument: str, got: Any, expected: str) -> None:
    """Raise an error for an invalid argument."""
    if not fine:
        raise ProblemError(f"no such {argument}", got=repr(got), expected=expected)


def check_rows(rows: Any, least: int, most: int) -> None:
    """Check ``rows``: a number, or None for all rows."""
    whole = isinstance(rows, int) and not isinstance(rows, bool)
    check(rows is None or (whole and least <= rows <= most), "rows", rows, f"an integer from {least} to {most:,}")
