"""A table of results: one row for each problem, setting and method, with mean and spread over seeds."""

from __future__ import annotations

import inspect
import statistics
import warnings
import zlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from itertools import groupby
from typing import Any, NamedTuple

import torch
from torch import Tensor

from hyperfront import indicators, preferences
from hyperfront.comparison.method import Method
from hyperfront.comparison.result import Result
from hyperfront.problem.recipe import Recipe
from hyperfront.problem.registry import problems
from hyperfront.storage.provenance import describe

COLUMNS = (
    "problem", "data", "preset", "method", "rays", "seeds", "HV", "uniformity", "of attainable", "non-dominated",
    "best scores", "seconds",
)  # fmt: skip
TRAINING = {"relu", "shift", "target", "augment", "inputs", "data_dir"}
"""Arguments of problems that leave the test losses comparable; all other arguments change the data or the losses."""


class Kind(NamedTuple):
    """The properties that the results of a row share."""

    problem: str
    data: str
    preset: str
    """The preset, with the settings that differ from it."""
    method: str
    rays: str


def summarize(results: Iterable[Result]) -> list[tuple[str, ...]]:
    """Rows for :data:`COLUMNS`, on the test data. The spread is the standard deviation over seeds; a dash marks a
    quantity that a method does not have.

    "Of attainable" compares the uniformity at each ray with the best that a non-dominated point of any of the results
    reaches there (:func:`hyperfront.indicators.controllability`), averaged over rays.
    """
    known: dict[tuple[Kind, int], Result] = {}
    objectives: dict[tuple[str, ...], tuple[str, ...]] = {}
    for result in results:
        place = _kind(result), result.seed
        first = objectives.setdefault(place[0][:2], (*result.objectives,))
        if first != (*result.objectives,):
            what = f"{result.problem}, {result.method}, seed {result.seed} has {', '.join(result.objectives)}"
            warnings.warn(f"a result with other objectives than {', '.join(first)} is skipped: {what}", stacklevel=2)
            continue
        if place in known and known[place].fronts["test"]["losses"] != result.fronts["test"]["losses"]:
            what = f"{result.problem}, {place[0].preset}, {result.method}, seed {result.seed}"
            warnings.warn(f"two results have the same settings, and only the first counts: {what}", stacklevel=2)
        known.setdefault(place, result)
    ordered = sorted(known.items(), key=lambda item: item[0])
    pools = {
        where: _best(torch.cat([result.losses() for _, result in group]))
        for where, group in groupby(ordered, key=lambda item: item[0][0][:2])
    }
    return [
        _row(kind, [result for _, result in group], pools[kind[:2]])
        for kind, group in groupby(ordered, key=lambda item: item[0][0])
    ]


def _best(pool: Tensor) -> Tensor:
    """The non-dominated points of a pool, found once for all rows."""
    return pool[indicators.nondominated(pool)]


def without_scores(rows: Iterable[Sequence[str]]) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
    """Columns and rows without the best scores, which are too wide for a terminal or a page."""
    kept = [index for index, name in enumerate(COLUMNS) if name != "best scores"]
    columns, *shown = (tuple(row[index] for index in kept) for row in (COLUMNS, *rows))
    return columns, shown


def _kind(result: Result) -> Kind:
    known = problems().get(result.problem)
    defaults = inspect.signature(known.make).parameters if known else {}
    usual = {name: p.default for name, p in defaults.items() if name not in TRAINING}
    given = result.settings.get("arguments", {})
    arguments = usual | {name: value for name, value in given.items() if name not in TRAINING}
    words = [str(value) for value in arguments.values() if isinstance(value, str)]
    others = [f"{name}={value}" for name, value in arguments.items() if value != usual.get(name)]
    data = ", ".join([*words, *(text for text in others if text.split("=", 1)[1] not in words)])
    rays = "-" if result.kind.gives == "ideal" else _rays(result)
    return Kind(result.problem, data or "-", _preset(result), shown_name(result), rays)


def shown_name(result: Result) -> str:
    """The name of the method in tables."""
    return f"{result.method} (ideal)" if result.kind.gives == "ideal" else result.method


def _rays(result: Result) -> str:
    """The number of rays, with a checksum where they are not evenly laid out; for a set of points, the number of
    models that it was made from."""
    count = len(result.rays)
    if not count:
        return f"from {len(result.settings['rays'])}" if "rays" in result.settings else "-"
    usual = preferences.rays(count, len(result.objectives)).double()
    asked = torch.tensor(result.rays, dtype=torch.float64), result.inverse_rays()
    if any(rays.shape == usual.shape and torch.allclose(rays, usual, atol=1e-4) for rays in asked):
        return str(count)
    return f"{count} ({zlib.crc32(repr(result.rays).encode()):08x})"


def _preset(result: Result) -> str:
    """The preset, and the settings that differ from it."""
    entry = problems().get(result.problem)
    own = entry.presets.get(result.preset) if entry else Recipe()
    if own is None:  # another version wrote the file
        return result.preset
    kind = result.kind
    options = {kind.options.__name__.lower(): asdict(kind.options())} if kind.options else {}
    known, found = _flat(describe(asdict(kind.recipe(own)) | options), kind), _flat(result.settings, kind)
    found = found if kind.hypernetwork else found | {"align": known["align"]}  # only hypernetworks align their rays
    changed = [f"{key}={found[key]}" for key in sorted(found) if found[key] != known.get(key)]
    return ", ".join([result.preset, *changed])


def _flat(settings: Mapping[str, Any], kind: Method) -> dict[str, Any]:
    """Settings by name, with the settings of hypernetwork, problem and method; rays and data are left out, since they
    have their own columns."""
    flat = {key: value for key, value in settings.items() if key not in ("rays", "separate", "evaluation_rays")}
    for part in ("model", "solver", *([kind.options.__name__.lower()] if kind.options else [])):
        flat |= flat.pop(part, {})
    arguments = flat.pop("arguments", {})
    return flat | {name: value for name, value in arguments.items() if name in TRAINING}


def _row(kind: Kind, group: Sequence[Result], pool: Tensor) -> tuple[str, ...]:
    tests = [result.fronts["test"] for result in group]
    best = {name: max if maximize else min for name, maximize in group[0].directions().items()}
    best = [
        f"{name} {spread([best[name](test['scores'][name]) for test in tests])}"
        for name in tests[0]["scores"]
        if name in best and all(name in test["scores"] for test in tests)
    ]
    return (
        *kind,
        str(len(group)),
        spread([test["hypervolume"] for test in tests]),
        spread([test["uniformity"] for test in tests]),
        spread([_controllability(result, pool) for result in group]),
        spread([_nondominated(result) for result in group], digits=2),
        ", ".join(best),
        spread([result.seconds["training"] for result in group], digits=1),
    )


def _nondominated(result: Result) -> float | None:
    """Return None for single-task baselines: they have no front."""
    return None if result.kind.gives == "ideal" else indicators.nondominated_share(result.losses())


def _controllability(result: Result, pool: Tensor) -> float | None:
    if result.fronts["test"]["uniformity"] is None:
        return None
    return indicators.controllability(result.losses(), result.inverse_rays(), pool).mean().item()


def spread(values: Sequence[float | None], digits: int = 3) -> str:
    """Mean and standard deviation, or a dash where there are no values."""
    known = [value for value in values if value is not None]
    if not known:
        return "-"
    mean = f"{statistics.fmean(known):,.{digits}f}"
    return mean if len(known) == 1 else f"{mean} +- {statistics.stdev(known):.{digits}f}"
