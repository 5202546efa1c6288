"""Certificates: guarantees for the limits of a selection, from calibration rows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Literal


@dataclass(frozen=True)
class CertifiedLimit:
    """One limited loss or score at the certified ray."""

    value: float
    """The value on the calibration rows."""
    bound: float
    """The tightest limit that the same test would have certified at this ray alone."""
    sign: str
    limit: float
    tested: float
    """The limit of the population that was tested: tighter than ``limit`` if future rows were asked for."""
    method: Literal["exact", "asymptotic"]


@dataclass(frozen=True)
class Certificate:
    """A guarantee: with probability ``confidence`` over the calibration rows, all limits hold at the selected ray.

    They hold for the population that the calibration rows were drawn from or, with ``future_rows``, for the values on
    that many new rows, with the probability over both.
    """

    confidence: float
    limits: Mapping[str, CertifiedLimit]
    rows: int
    """The number of calibration rows."""
    future_rows: int | None
    candidates: int
    """The number of candidate rays, safest first."""
    passed: int
    """The number of candidates before the first that failed."""

    @property
    def method(self) -> Literal["exact", "asymptotic"]:
        """``exact`` if the guarantee holds for every number of rows; ``asymptotic`` if it holds for many rows."""
        return "exact" if all(limit.method == "exact" for limit in self.limits.values()) else "asymptotic"

    def __str__(self) -> str:
        about = f"the next {self.future_rows:,} rows" if self.future_rows else "the population"
        lines = [
            f"certified for {about} with probability {self.confidence:g} on {self.rows:,} calibration rows "
            f"({self.method}; {self.passed} of {self.candidates} candidates passed)"
        ]
        for name, limit in self.limits.items():
            lines.append(
                f"  {name} {limit.sign} {limit.limit:g}: {limit.value:.4g} on calibration rows, bound {limit.bound:.4g}"
            )
        return "\n".join(lines)

    def document(self) -> dict[str, Any]:
        """The certificate as JSON."""
        return {
            "confidence": self.confidence,
            "method": self.method,
            "rows": self.rows,
            "future_rows": self.future_rows,
            "candidates": self.candidates,
            "passed": self.passed,
            "limits": {name: asdict(limit) for name, limit in self.limits.items()},
        }
