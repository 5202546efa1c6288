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

from hyperfront import indicators
from hyperfront.comparison.baselines import Budget, Expansion
from hyperfront.comparison.result import Result
from hyperfront.preferences import rays as laid_out
from hyperfront.problem.recipe import Recipe
from hyperfront.problem.registry import problems
from hyperfront.storage.provenance import describe

COLUMNS = (
    "problem", "data", "preset", "method", "rays", "seeds", "HV", "uniformity", "of attainable", "non-dominated",
    "best scores", "seconds",
)  # fmt: skip
TRAINING = {"relu", "shift", "target", "augment", "inputs", "data_dir"}
"""Arguments of problems that leave the test losses comparable; all others make other data or losses."""


class Kind(NamedTuple):
    """What the results of a row have in common."""

    problem: str
    data: str
    preset: str
    """With whatever is different."""
    method: str
    rays: str


def summarize(results: Iterable[Result]) -> list[tuple[str, ...]]:
    """Rows for :data:`COLUMNS`, on the test data. The spread is the standard deviation over seeds; a dash is for what a
    method does not have.

    "Of attainable" compares the uniformity at each ray with the best that a non-dominated point of any of the results
    reaches there (:func:`hyperfront.indicators.controllability`), averaged over rays.
    """
    known: dict[tuple[Kind, int], Result] = {}
    for result in results:
        place = _kind(result), result.seed
        if place in known and known[place].fronts["test"]["losses"] != result.fronts["test"]["losses"]:
            what = f"{result.problem}, {place[0].preset}, {result.method}, seed {result.seed}"
            warnings.warn(f"two results with the same settings, of which the first counts: {what}", stacklevel=2)
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
    """Its non-dominated points: all that counts of it, found once for all rows."""
    return pool[indicators.nondominated(pool)]


def without_scores(rows: Iterable[Sequence[str]]) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
    """Columns and rows but for the best scores, which are too wide for a terminal or a page."""
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
    single = result.family == "single"  # one point, where no model is
    method, rays = ("single (ideal)", "-") if single else (result.method, _rays(result))
    return Kind(result.problem, data or "-", _preset(result), method, rays)


def _rays(result: Result) -> str:
    """How many, and a mark of which, where they are not the usual ones; of the models that CPMTL begins with."""
    count = len(result.rays)
    if not count:
        return f"from {len(result.settings['rays'])}" if "rays" in result.settings else "-"
    usual = laid_out(count, len(result.objectives)).double()
    asked = torch.tensor(result.rays, dtype=torch.float64), result.inverse_rays()
    if any(rays.shape == usual.shape and torch.allclose(rays, usual, atol=1e-4) for rays in asked):
        return str(count)
    return f"{count} ({zlib.crc32(repr(result.rays).encode()):08x})"


def _preset(result: Result) -> str:
    """The preset, and the settings that are not its own."""
    entry = problems().get(result.problem)
    own = entry.presets.get(result.preset) if entry else Recipe()
    if own is None:  # a file of another version
        return result.preset
    own = own if result.family == "phn" else own.for_separate_models()
    usual = {"budget": asdict(Budget()), "expansion": asdict(Expansion())}
    known = _flat(describe(asdict(own) | {part: usual[part] for part in usual.keys() & result.settings.keys()}))
    found = _flat(result.settings)
    found = found if result.family == "phn" else found | {"align": known["align"]}  # which nothing else has
    changed = [f"{key}={found[key]}" for key in sorted(found) if found[key] != known.get(key)]
    return ", ".join([result.preset, *changed])


def _flat(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Settings by name, with those of the hypernetwork, the problem and the method among them; no rays, and nothing of
    the data, which have columns of their own."""
    flat = {key: value for key, value in settings.items() if key not in ("rays", "separate", "evaluation_rays")}
    for part in ("model", "solver", "budget", "expansion"):
        flat |= flat.pop(part, {})
    arguments = flat.pop("arguments", {})
    return flat | {name: value for name, value in arguments.items() if name in TRAINING}


def _row(kind: Kind, group: Sequence[Result], pool: Tensor) -> tuple[str, ...]:
    tests = [result.fronts["test"] for result in group]
    best = [f"{name} {spread([_extreme(name, test['scores'][name]) for test in tests])}" for name in tests[0]["scores"]]
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
    """Of one model per objective, no point is that of a front."""
    return None if result.family == "single" else indicators.nondominated_share(result.losses())


def _extreme(name: str, values: Sequence[float]) -> float:
    """The best value over the rays: gaps and errors should be small, everything else large."""
    return min(values) if any(word in name for word in ("gap", "error", "mse")) else max(values)


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
