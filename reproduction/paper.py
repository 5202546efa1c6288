"""Declarations: the paper's numbers, from ``paper.toml``, and the departures from the paper with reasons, from
``deviations.toml``. :mod:`reproduction.ablations` measures what departures do to the numbers.
"""

from __future__ import annotations

import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple


def declared(name: str) -> dict[str, Any]:
    """The contents of ``NAME.toml`` beside this module."""
    return tomllib.loads(Path(__file__).with_name(f"{name}.toml").read_text())


class Deviation(NamedTuple):
    """A departure: the paper's choice, ours, the items that it concerns, and the reason."""

    paper: str
    here: str
    items: Sequence[str]
    why: str = ""

    def __str__(self) -> str:
        return f"The paper: {self.paper}. Here: {self.here}." + (f" Why: {self.why}." if self.why else "")


NUMBERS = declared("paper")
DEVIATIONS = {name: Deviation(**texts) for name, texts in declared("deviations").items()}


def said(kind: str, problem: str, method: str) -> Sequence[str]:
    """The paper's hypervolume and uniformity of a method on a problem, at ``own-rays`` or at the ``same-rays`` as the
    baselines; dashes, if the paper has none."""
    return NUMBERS[kind].get(problem, {}).get(method, ("-", "-"))


def deviations_of(item: str) -> dict[str, Deviation]:
    """The departures that concern an item, by name."""
    return {name: deviation for name, deviation in DEVIATIONS.items() if item in deviation.items}
