"""The paper's numbers, from ``paper.toml``, and the departures from the paper with reasons, from ``deviations.toml``.

:mod:`reproduction.ablations` measures what departures do to the numbers.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple


class Number(NamedTuple):
    """The paper's result of one method on one problem."""

    hypervolume: float
    uniformity: float | None = None


class Deviation(NamedTuple):
    """A departure: the paper's choice, ours, the items that it concerns, and the reason."""

    paper: str
    here: str
    items: Sequence[str]
    why: str = ""

    def __str__(self) -> str:
        return f"The paper: {self.paper}. Here: {self.here}." + (f" Why: {self.why}." if self.why else "")


def _read(name: str) -> dict[str, Any]:
    return tomllib.loads(Path(__file__).with_name(name).read_text())


_PAPER = _read("paper.toml")
NUMBERS, SAME_RAYS = (
    {problem: {m: Number(*pair) for m, pair in pairs.items()} for n in tables for problem, pairs in _PAPER[n].items()}
    for tables in (["table-1", "table-2", "table-3", "table-4"], ["table-6"])
)
"""By problem and method: hypernetworks at rays of their own, and at those of the baselines."""
UNSEEN = {rays: Number(*pair) for rays, pair in _PAPER["appendix-b2"].items()}
ROWS: Mapping[str, Mapping[str, int]] = _PAPER["table-5"]
"""Rows by problem and split."""
MINUTES: Mapping[str, Mapping[str, float]] = _PAPER["minutes"]
"""Run times by problem and method."""
DEVIATIONS = {name: Deviation(**texts) for name, texts in _read("deviations.toml").items()}


def deviations_of(item: str) -> dict[str, Deviation]:
    """The departures that concern an item, by name."""
    return {name: deviation for name, deviation in DEVIATIONS.items() if item in deviation.items}
