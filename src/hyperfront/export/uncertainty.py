"""The section of a model card on uncertainty: intervals of losses and scores at the ray, and how they were computed."""

from __future__ import annotations

from collections.abc import Sequence

from hyperfront.export.choice import SPLITS
from hyperfront.export.markdown import escaped, number, table
from hyperfront.front.intervals import Interval, Intervals


def uncertainty(measured: Sequence[Intervals]) -> str:
    """A table with the interval of every loss and score, for each split."""
    if not len(measured):
        return ""
    first = measured[0]
    rows = [
        [escaped(first.meanings[name].title), *(_between(each[name]) for each in measured), _method(first[name])]
        for name in first
    ]
    names = [f"{SPLITS.get(each.split, each.split)}, {each.rows:,} rows" for each in measured]
    said = (
        f"The population's value is between the ends with probability {first.confidence:g} over the rows, for one loss "
        "or score at a time. *Exact* intervals hold for every number of rows, *asymptotic* ones for many rows."
    )
    if any(each.split == "val" for each in measured):
        said += " Validation rows chose weights and ray, so their values look too good."
    caveats = dict.fromkeys(f"{escaped(each.caveat)}." for each in measured if each.caveat)
    return "\n\n".join([said, *caveats, table(["loss or score", *names, "interval"], rows)])


def _between(found: Interval) -> str:
    return f"{number(found.value)} ({found.between(number)})"


def _method(found: Interval) -> str:
    return f"{found.method}, {found.test}"
