"""A table of results: one row for each problem, setting and solver, with mean and spread over seeds."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Sequence
from itertools import groupby

import torch
from torch import Tensor

from hyperfront import metrics
from hyperfront.experiments.result import Result

COLUMNS = (
    "problem", "split", "preset", "solver", "seeds", "HV", "uniformity", "of attainable", "non-dominated",
    "best scores", "seconds",
)  # fmt: skip


def summarise(results: Iterable[Result]) -> list[tuple[str, ...]]:
    """Rows for :data:`COLUMNS`, on the test data. The spread is the standard deviation over seeds.

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
    return result.problem, split, result.preset, result.solver


def _row(kind: tuple[str, str, str, str], group: Sequence[Result], pool: Tensor) -> tuple[str, ...]:
    tests = [result.fronts["test"] for result in group]
    best = [
        f"{name} {_spread([_extreme(name, test['scores'][name]) for test in tests])}" for name in tests[0]["scores"]
    ]
    return (
        *kind,
        str(len(group)),
        _spread([test["hypervolume"] for test in tests]),
        _spread([test["uniformity"] for test in tests]),
        _spread([metrics.controllability(_losses(r), torch.tensor(r.rays), pool).mean().item() for r in group]),
        _spread([test["nondominated"] for test in tests], digits=2),
        ", ".join(best),
        _spread([result.seconds["training"] for result in group], digits=1),
    )


def _extreme(name: str, values: Sequence[float]) -> float:
    """The best value over the rays: gaps and errors should be small, everything else large."""
    return min(values) if any(word in name for word in ("gap", "error")) else max(values)


def _spread(values: Sequence[float], digits: int = 3) -> str:
    mean = f"{statistics.fmean(values):.{digits}f}"
    return mean if len(values) == 1 else f"{mean} +- {statistics.stdev(values):.{digits}f}"
