"""Departures of this reproduction from the paper, with reasons, from ``deviations.toml``.

:mod:`reproduction.ablations` measures what departures do to the numbers.
"""

from __future__ import annotations

import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Deviation:
    """A departure: the paper's choice, ours, and the reason."""

    paper: str
    here: str
    why: str = ""
    items: Sequence[str] = ()
    """The items that the departure concerns."""

    def __str__(self) -> str:
        return f"The paper: {self.paper}. Here: {self.here}." + (f" Why: {self.why}." if self.why else "")


_FILE = Path(__file__).with_name("deviations.toml")
DEVIATIONS = {name: Deviation(**texts) for name, texts in tomllib.loads(_FILE.read_text()).items()}


def deviations_of(item: str) -> dict[str, Deviation]:
    """The departures that concern an item, by name."""
    return {name: deviation for name, deviation in DEVIATIONS.items() if item in deviation.items}
