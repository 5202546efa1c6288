"""The numbers of the paper, from ``paper.toml``: hypervolume and uniformity by table, problem and method."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple


class Number(NamedTuple):
    """The numbers that the paper reports for one method on one problem."""

    hypervolume: float
    uniformity: float | None = None


Numbers = Mapping[str, Mapping[str, Number]]
"""Numbers by problem and method."""

_PAPER = tomllib.loads(Path(__file__).with_name("paper.toml").read_text())


def _table(number: int) -> Numbers:
    methods = _PAPER[f"table-{number}"].items()
    return {problem: {method: Number(*pair) for method, pair in pairs.items()} for problem, pairs in methods}


TABLE_1, TABLE_2, TABLE_3, TABLE_4, TABLE_6 = map(_table, (1, 2, 3, 4, 6))
TABLE_5: Mapping[str, Mapping[str, int]] = _PAPER["table-5"]
"""Rows by problem and split."""
UNSEEN = {rays: Number(*pair) for rays, pair in _PAPER["appendix-b2"].items()}
MINUTES: Mapping[str, Mapping[str, float]] = _PAPER["minutes"]
"""Run times by problem and method."""
