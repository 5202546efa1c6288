"""Errors that say what went wrong, what was found, what was expected, and how to fix it."""

from __future__ import annotations

import difflib
import math
import numbers
import reprlib
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
        parts = (("got:      ", _text(got)), ("expected: ", _text(expected)), ("fix:      ", _text(fix)))
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
    near = difflib.get_close_matches(shown(name).strip("'").lower(), known, n=1, cutoff=0.6)
    return HyperfrontError(
        f"unknown {kind} {shown(name)}",
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
    if number and _finite(value) and low <= value <= high and value != without:  # pyrefly: ignore
        return
    bounds = [f"{'>' if low == without else '>='} {low:,}"] if low > -math.inf else []
    bounds += [f"{'<' if high == without else '<='} {high:,}"] if high < math.inf else []
    raise error(
        f"{name} is out of range" if number else f"{name} is not a {kind} number",
        got=shown(value),
        expected=f"a {kind} number {' and '.join(bounds)}".strip(),
    )


def _finite(value: object) -> bool:
    try:
        return math.isfinite(value)  # pyrefly: ignore[bad-argument-type]
    except OverflowError:  # a whole number beyond all floats
        return False


def check_choice(name: str, value: object, known: Iterable[str]) -> None:
    """Raise an error that suggests the nearest name unless ``value`` is one of the ``known`` names."""
    known = tuple(known)
    if not isinstance(value, str) or value not in known:
        raise unknown_name(name, value, known)


def check_flag(name: str, value: object) -> None:
    """Raise an error unless ``value`` is True or False: texts such as ``"no"`` count as true in Python."""
    if not isinstance(value, bool):
        raise HyperfrontError(f"{name} is neither True nor False", got=shown(value), expected="True or False")


def shown(value: object) -> str:
    """Show a value in at most 100 letters, whatever it is: deep, huge, or without a text."""
    text = _SHORT.repr(value)
    return text if len(text) <= 100 else f"{text[:97]}..."


def _text(value: object) -> str | None:
    """The text of a part of an error; values without a text are :func:`shown`."""
    try:
        return None if value is None else str(value)
    except Exception:
        return shown(value)


_SHORT = reprlib.Repr()
_SHORT.maxlist = _SHORT.maxtuple = _SHORT.maxdict = _SHORT.maxset = _SHORT.maxarray = 20
_SHORT.maxstring = _SHORT.maxother = _SHORT.maxlong = 100
