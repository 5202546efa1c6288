"""Errors that say what went wrong, what was found, what was expected, and how to fix it."""

from __future__ import annotations

import difflib
import math
import numbers
from collections.abc import Iterable


class HyperfrontError(ValueError):
    """Base of all errors raised on purpose by this package.

    >>> print(HyperfrontError("ray has a negative entry", got="left = -0.2", expected=">= 0", fix="drop the sign"))
    ray has a negative entry
      got:      left = -0.2
      expected: >= 0
      fix:      drop the sign
    """

    def __init__(self, what: str, *, got: object = None, expected: object = None, fix: object = None):
        self.what, self.got, self.expected, self.fix = what, got, expected, fix
        parts = (("got:      ", got), ("expected: ", expected), ("fix:      ", fix))
        super().__init__("\n".join([what, *(f"  {label}{value}" for label, value in parts if value is not None)]))


class RayError(HyperfrontError):
    """Raised for a preference that is not a point of the simplex."""


class LossError(HyperfrontError):
    """Raised for a loss that no solver can use: NaN, infinite, negative under EPO, or independent of theta."""


class TargetError(HyperfrontError):
    """Raised for a module whose tensors a hypernetwork cannot generate."""


class ProblemError(HyperfrontError):
    """Raised for objectives, data, units or reference points that do not fit together."""


class CheckpointError(HyperfrontError):
    """Raised for a file or run folder that cannot be read, written or resumed."""


class DamagedError(CheckpointError):
    """Raised for a file that is cut off, of another format, or whose content differs from its checksums."""


class BusyError(CheckpointError):
    """Raised for a folder that another process works in."""


class DataError(HyperfrontError):
    """Raised for a data file that is missing, damaged, or of another data set than its name says."""


class SelectionError(HyperfrontError):
    """Raised for a goal or limits that do not fit the front."""


class UnattainableError(SelectionError):
    """Raised for limits that no point of the front satisfies."""


def unknown_name(kind: str, name: object, known: Iterable[str]) -> HyperfrontError:
    """Make the error for an unknown name: it suggests the nearest valid name and lists all of them.

    >>> unknown_name("problem", "fonsecca", ["fonseca", "zdt1"]).fix
    "did you mean 'fonseca'?"
    """
    known = sorted(known)
    near = difflib.get_close_matches(str(name).lower(), known, n=1, cutoff=0.6)
    return HyperfrontError(
        f"unknown {kind} {name!r}",
        expected="one of " + ", ".join(known),
        fix=f"did you mean {near[0]!r}?" if near else None,
    )


def check_number(
    name: str,
    value: object,
    low: float = -math.inf,
    high: float = math.inf,
    *,
    whole: bool = False,
    without: float | None = None,
    error: type[HyperfrontError] = HyperfrontError,
) -> None:
    """Raise an error unless ``value`` is a finite number from ``low`` to ``high``, but not the bound ``without``.

    NumPy's numbers are numbers; a bool, a tensor and a text are none.

    >>> check_number("epochs", 30, 1, whole=True)
    """
    kind = "whole" if whole else "finite"
    number = isinstance(value, numbers.Integral if whole else numbers.Real) and not isinstance(value, bool)
    if number and math.isfinite(value) and low <= value <= high and value != without:  # pyrefly: ignore
        return
    bounds = [f"{'>' if low == without else '>='} {low:,}"] if low > -math.inf else []
    bounds += [f"{'<' if high == without else '<='} {high:,}"] if high < math.inf else []
    raise error(
        f"{name} is out of range" if number else f"{name} is not a {kind} number",
        got=_shown(value),
        expected=f"a {kind} number {' and '.join(bounds)}".strip(),
    )


def check_choice(name: str, value: object, known: Iterable[str]) -> None:
    """Raise an error that suggests the nearest name unless ``value`` is one of the ``known`` names."""
    known = tuple(known)
    if not isinstance(value, str) or value not in known:
        raise unknown_name(name, value, known)


def check_flag(name: str, value: object) -> None:
    """Raise an error unless ``value`` is True or False: texts such as ``"no"`` count as true in Python."""
    if not isinstance(value, bool):
        raise HyperfrontError(f"{name} is neither True nor False", got=_shown(value), expected="True or False")


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 100 else f"{text[:97]}..."
