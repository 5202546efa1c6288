"""The result of an item of the paper: tables, claims with verdicts, a figure, and the numbers behind them."""

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


@dataclass(frozen=True)
class Claim:
    """A statement of the paper or an expectation, whether it holds here, and by which numbers."""

    text: str
    holds: bool | None
    """None where the numbers do not decide."""
    numbers: str
    close: bool = False
    """Whether other seeds might decide otherwise."""
    kind: str = "others"
    """The statement that several claims share."""

    @property
    def verdict(self) -> str:
        return "open" if self.holds is None else "close" if self.close else "yes" if self.holds else "no"


def above(text: str, ours: Sequence[float], theirs: Sequence[float], whose: str, *, kind: str = Claim.kind) -> Claim:
    """Claim that the mean of ``ours`` is above that of ``theirs``. The claim is close if the means differ by less than
    the sum of both standard deviations over seeds; with one seed each, by less than 3 %, since the same run trained
    twice can differ by as much.

    >>> above("more", [0.9, 1.1], [0.5, 0.5], "LS").verdict, above("more", [0.9, 1.1], [0.95, 0.85], "LS").verdict
    ('yes', 'close')
    >>> above("more", [0.9], [0.8], "LS").numbers, above("more", [0.81], [0.8], "LS").verdict
    ('0.900 against 0.800 of LS; one seed', 'close')
    """
    apart = fmean(ours) - fmean(theirs)
    deviation = sum(stdev(values) for values in (ours, theirs) if len(values) > 1)
    deviation = 0.03 * abs(fmean(theirs)) if len(ours) == len(theirs) == 1 else deviation
    numbers = f"{spread(ours)} against {spread(theirs)} of {whose}"
    single = "; one seed" if 1 in (len(ours), len(theirs)) else ""
    return Claim(text, apart > 0, numbers + single, abs(apart) < deviation, kind)


@dataclass
class ItemResult:
    """All results of an item, and the environments that made them."""

    tables: list[Table] = field(default_factory=list)
    figure: Figure | None = None
    claims: list[Claim] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    numbers: dict[str, Any] = field(default_factory=dict)
    environments: list[dict[str, Any]] = field(default_factory=list)


def shown(value: float | None, digits: int = 3) -> str:
    """A number, or a dash.

    >>> shown(2.7, 2), shown(None)
    ('2.70', '-')
    """
    return "-" if value is None else f"{value:,.{digits}f}"


def fronts_of(results: Sequence[Result]) -> list[Mapping[str, Any]]:
    """The test front of each result."""
    return [result.fronts["test"] for result in results]


def quality(fronts: Sequence[Mapping[str, Any]], digits: int = 3) -> tuple[str, str]:
    """Hypervolume and uniformity with their spread over seeds."""
    volumes, uniform = ([front[key] for front in fronts] for key in ("hypervolume", "uniformity"))
    return spread(volumes, digits), spread(uniform, digits)


def by_method(results: Sequence[Result]) -> dict[str, list[Result]]:
    """The results of each method, in the order of the methods."""
    names = dict.fromkeys(result.method for result in results)
    return {name: [result for result in results if result.method == name] for name in names}
