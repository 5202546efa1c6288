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
class Price:
    """The price of certainty, beside the ray that would be chosen without a certificate."""

    goal: str
    without: float
    """The goal on validation rows at the ray without a certificate."""
    certified: float
    """The goal on validation rows at the certified ray."""
    limits: Mapping[str, float]
    """The smallest limits for which the ray without a certificate would have passed."""
    rows: int | None
    """About how many calibration rows in all would halve the cost; None if nothing is lost, or if it is not known."""

    def __str__(self) -> str:
        if f"{self.certified:.4g}" == f"{self.without:.4g}":
            return "Certainty costs nothing here: the certified trade-off is as good on validation rows."
        smallest = ", ".join(f"{name} {limit:.3g}" for name, limit in self.limits.items())
        text = f"What certainty costs: {self.goal} {self.certified:.4g} instead of {self.without:.4g}"
        text += f"; the trade-off with {self.without:.4g} can be certified for {smallest}"
        return text + (f"; about {self.rows:,} calibration rows in all would halve the cost." if self.rows else ".")


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
    price: Price | None = None
    caveat: str | None = None
    """Why the calibration rows are no random sample, if they are none."""

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
        return "\n".join([*lines, *(f"  {remark}" for remark in self.remarks())])

    def remarks(self) -> list[str]:
        """The price of certainty, and reasons why the guarantee may not cover new rows."""
        price = [str(self.price)] if self.price else []
        return price + ([f"Warning: {self.caveat}."] if self.caveat else [])

    def document(self) -> dict[str, Any]:
        """The certificate as JSON."""
        return {
            "confidence": self.confidence,
            "method": self.method,
            "rows": self.rows,
            "future_rows": self.future_rows,
            "candidates": self.candidates,
            "passed": self.passed,
            "price": None if self.price is None else asdict(self.price),
            "caveat": self.caveat,
            "limits": {name: asdict(limit) for name, limit in self.limits.items()},
        }
