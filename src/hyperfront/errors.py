"""Errors that say what went wrong, what was found, what was expected, and how to fix it."""

from __future__ import annotations

import difflib
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


def unknown_name(kind: str, name: str, known: Iterable[str]) -> HyperfrontError:
    """Make the error for an unknown name: it suggests the nearest valid name and lists all of them.

    >>> unknown_name("problem", "fonsecca", ["fonseca", "zdt1"]).fix
    "did you mean 'fonseca'?"
    """
    known = sorted(known)
    near = difflib.get_close_matches(name.lower(), known, n=1, cutoff=0.6)
    return HyperfrontError(
        f"unknown {kind} {name!r}",
        expected="one of " + ", ".join(known),
        fix=f"did you mean {near[0]!r}?" if near else None,
    )
