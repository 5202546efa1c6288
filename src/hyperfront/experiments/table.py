"""A table of results: one row for each problem, setting and method, with mean and spread over seeds."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Sequence
from itertools import groupby

import torch
from torch import Tensor

from hyperfront import metrics
from hyperfront.experiments.result import Result
from hyperfront.preferences import convert

COLUMNS = (
    "problem", "split", "preset", "method", "seeds", "HV", "uniformity", "of attainable", "non-dominated",
    "best scores", "seconds",
)  # fmt: skip


def summarise(results: Iterable[Result]) -> list[tuple[str, ...]]:
    """Rows for :data:`COLUMNS`, on the test data. The spread is the standard deviation over seeds; a dash is for what a
    method does not have.

    "Of attainable" compares the uniformity at each ray with the best that a non-dominated point of any of the results
    reaches there (:func:`hyperfront.metrics.controllability`), averaged over rays.
    """
    ordered = sorted(results, key=lambda r: (*_kind(r), r.seed))
    pools = {
        where: torch.cat([_losses(result) for result in group])
        for where, group in groupby(ordered, key=lambda r: _kind(r)[:2])
    }
    return [_row(kind, list(group), pools[kind[:2]]) for kind, group in groupby(ordered, key=_kind)]


def _losses(result: Result) -> Tensor:
    return torch.tensor(result.fronts["test"]["losses"], dtype=torch.float64)


def _kind(result: Result) -> tuple[str, str, str, str]:
    split = str(result.settings["arguments"].get("split", "default"))
    return result.problem, split, result.preset, result.method


def _row(kind: tuple[str, str, str, str], group: Sequence[Result], pool: Tensor) -> tuple[str, ...]:
    tests = [result.fronts["test"] for result in group]
    best = [f"{name} {spread([_extreme(name, test['scores'][name]) for test in tests])}" for name in tests[0]["scores"]]
    return (
        *kind,
        str(len(group)),
        spread([test["hypervolume"] for test in tests]),
        spread([test["uniformity"] for test in tests]),
        spread([_controllability(result, pool) for result in group]),
        spread([test["nondominated"] for test in tests], digits=2),
        ", ".join(best),
        spread([result.seconds["training"] for result in group], digits=1),
    )


def _extreme(name: str, values: Sequence[float]) -> float:
    """The best value over the rays: gaps and errors should be small, everything else large."""
    return min(values) if any(word in name for word in ("gap", "error")) else max(values)


def _controllability(result: Result, pool: Tensor) -> float | None:
    if result.fronts["test"]["uniformity"] is None:
        return None
    rays = torch.tensor(result.rays, dtype=torch.float64)
    rays = convert(rays, "direction", "inverse") if result.convention == "direction" else rays
    return metrics.controllability(_losses(result), rays, pool).mean().item()


def spread(values: Sequence[float | None], digits: int = 3) -> str:
    """Mean and standard deviation, or a dash where there are no values."""
    known = [value for value in values if value is not None]
    if not known:
        return "-"
    mean = f"{statistics.fmean(known):,.{digits}f}"
    return mean if len(known) == 1 else f"{mean} +- {statistics.stdev(known):.{digits}f}"
