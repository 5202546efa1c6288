"""The result of an item of the paper: tables, a figure, notes, and the numbers behind them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from statistics import fmean, stdev
from typing import Any

from matplotlib.figure import Figure

from hyperfront.comparison.result import Result
from hyperfront.comparison.table import spread

Row = tuple[str, ...]


@dataclass(frozen=True)
class Table:
    """Cells are texts; a row has one for each column. Columns called "paper" hold the paper's numbers."""

    title: str
    columns: tuple[str, ...]
    rows: Sequence[Row]


@dataclass
class ItemResult:
    """All results of an item, and the environments that made them."""

    tables: list[Table] = field(default_factory=list)
    figure: Figure | None = None
    notes: list[str] = field(default_factory=list)
    numbers: dict[str, Any] = field(default_factory=dict)
    environments: list[dict[str, Any]] = field(default_factory=list)


def above(ours: Sequence[float], theirs: Sequence[float]) -> str:
    """Whether the mean of ``ours`` is above that of ``theirs``. It is close if the means differ by less than the sum of
    both standard deviations over seeds; with one seed each, by less than 3 %, since the same run trained twice can
    differ by as much.

    >>> above([0.9, 1.1], [0.5, 0.5]), above([0.9, 1.1], [0.95, 0.85]), above([0.9], [0.8]), above([0.81], [0.8])
    ('yes', 'close', 'yes', 'close')
    """
    means = fmean(ours), fmean(theirs)
    deviation = sum(stdev(values) for values in (ours, theirs) if len(values) > 1)
    return verdict(*means, 0.03 * abs(means[1]) if len(ours) == len(theirs) == 1 else deviation)


def verdict(ours: float, theirs: float, tolerance: float) -> str:
    """Whether ``ours`` is above ``theirs``: yes, no, or close.

    >>> verdict(0.9, 0.8, 0.05), verdict(0.81, 0.8, 0.05)
    ('yes', 'close')
    """
    return "close" if abs(ours - theirs) < tolerance else "yes" if ours > theirs else "no"


def shown(value: float | None, digits: int = 3) -> str:
    """A number, or a dash.

    >>> shown(2.7, 2), shown(None)
    ('2.70', '-')
    """
    return "-" if value is None else f"{value:,.{digits}f}"


def volume(result: Result) -> float:
    """The hypervolume of the test front."""
    return result.fronts["test"]["hypervolume"]


def first_seed(results: Sequence[Result]) -> list[Result]:
    """The results of the first seed."""
    return [result for result in results if result.seed == 0]


def front_numbers(result: Result) -> dict[str, Any]:
    """Rays and losses of a test front."""
    return {"rays": result.rays, "losses": result.fronts["test"]["losses"]}


def fronts_of(results: Sequence[Result]) -> list[Mapping[str, Any]]:
    """The test front of each result."""
    return [result.fronts["test"] for result in results]


def quality(fronts: Sequence[Mapping[str, Any]], digits: int = 3) -> tuple[str, str]:
    """Hypervolume and uniformity with their spread over seeds."""
    volumes, uniform = ([front[key] for front in fronts] for key in ("hypervolume", "uniformity"))
    return spread(volumes, digits), spread(uniform, digits)
