"""Evidence of a split's rows for losses and scores at one ray.

The network runs once over the split. Then every measure is taken row by row: the statistics of single rows add up to
those of the split, so resamples of rows are weighted sums.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor

from hyperfront.errors import ProblemError
from hyperfront.front.bootstrap import RESAMPLES, Bootstrap, sums
from hyperfront.front.evidence import BoundedGap, BoundedMean, Evidence, Resampled, Scale
from hyperfront.model import ParetoModel
from hyperfront.model.derivatives import retried
from hyperfront.model.normalization import modes_kept
from hyperfront.model.stacking import Crossing, stack
from hyperfront.model.substitution import called
from hyperfront.problem import Described, Gap, Mean, Problem, Split
from hyperfront.storage import batches
from hyperfront.storage.nests import map_tensors, tensors

TOLERANCE = 1e-3
"""Relative difference between a measure of a batch and the sum over its rows, beyond which it is no sum over rows."""


def described(problem: Problem, name: str) -> Described:
    """The loss or score of that name."""
    return problem.scores[name] if name in problem.scores else problem.measures[name]


def scale(problem: Problem, name: str) -> Scale:
    """The units of a loss; a score has the units of its function."""
    if name in problem.scores:
        return Scale()
    index = problem.objectives.index(name)
    return Scale(problem.units.ideal[index], problem.units.slope[index])


def refuse(model: ParetoModel, split: Split) -> None:
    """Raise an error if the rows of a split cannot be told apart."""
    if split.problem.function is not None:
        raise ProblemError("an analytic problem has no rows", fix="its losses are exact, so leave confidence= out")
    if not split.problem.divisible:
        raise ProblemError(
            "single rows cannot be measured",
            got="batches whose rows are counted by rows=",
            expected="batches whose tensors have one entry for each row",
        )
    if model.target.batchnorm == "batch" and model.target.norms:
        raise ProblemError(
            "predictions for a row depend on the other rows of its batch", fix='wrap(..., batchnorm="grid")'
        )


@torch.no_grad()
def evidence(
    model: ParetoModel,
    split: Split,
    ray: Tensor,
    names: Iterable[str],
    *,
    like: Mapping[str, Evidence] | None = None,
    batch_size: int = 1024,
    resamples: int = RESAMPLES,
    exact_gaps: bool = True,
) -> dict[str, Evidence]:
    """The evidence of the split's rows at the ray ``[m]``, by name.

    Each exact test is that of ``like``, the evidence of other rows; the default is the test that fits the rows. Without
    ``exact_gaps``, gaps with bounds take the bootstrap too.
    """
    refuse(model, split)
    problem, names = split.problem, tuple(names)
    measures = {name: described(problem, name).measure for name in names}
    parts: dict[str, list[Any]] = {name: [] for name in names}
    for output, batch in _outputs(model, split, ray, batch_size):
        for name, measure in measures.items():
            parts[name].append(_of_rows(name, measure, output, batch))
    found: dict[str, Evidence] = {}
    for name, measure in measures.items():
        bounds, pieces = described(problem, name).bounds, parts[name]
        if isinstance(measure, Mean):
            values = torch.cat(pieces)
            if bounds is None:
                found[name] = _resampled_mean(values, resamples)
            else:
                found[name] = BoundedMean(_inside(name, values, bounds), bounds, "binomial")
        elif isinstance(measure, Gap):
            values, members = torch.cat([v for v, _ in pieces]), torch.cat([m for _, m in pieces], dim=1)
            if bounds is None or not exact_gaps:
                found[name] = _resampled_gap(measure, values, members, resamples)
            else:
                found[name] = BoundedGap(_inside(name, values, bounds), bounds, "binomial", members.numpy())
        elif measure.additive:
            found[name] = _resampled_sums(measure, map_tensors(lambda *t: torch.cat(t), *pieces), resamples)
        else:
            found[name] = _resampled_rows(measure, _merged(measure, pieces), resamples // 4)
    if like is None:
        return {name: each.chosen() for name, each in found.items()}
    return {name: each.tested_as(like[name]) if name in like else each for name, each in found.items()}


def _outputs(model: ParetoModel, split: Split, ray: Tensor, batch_size: int) -> Iterator[tuple[Any, Any]]:
    """The outputs of the network at the ray, with their batches."""
    problem = split.problem
    with modes_kept(model, model.target):
        model.eval()
        rays = model.prepare(ray)
        theta = model.hypernet(rays)
        run = retried(lambda network, batch: called(network, problem.inputs(batch)))
        for batch in split.source.batches(batch_size, model.device):
            outputs = model.target.map(run, theta, rays, batch, split=False)
            yield map_tensors(lambda tensor: tensor[0], outputs), batch


def _of_rows(name: str, measure: Any, output: Any, batch: Any) -> Any:
    """Return the contributions of each row of a batch to a measure, on the CPU: values ``[B]`` for a mean, values and
    members for a gap, statistics ``[B, ...]`` for other sums, and the gathered rows for other measures."""
    if isinstance(measure, Gap):
        return measure.quantity(output, batch).double().cpu(), measure.members(batch).cpu()
    if not measure.additive:
        return measure.statistics(output, batch)
    each = _row_by_row(measure, output, batch)
    whole = measure.statistics(output, batch)
    for all_rows, together in zip(tensors(each), tensors(whole)):
        added = all_rows.double().sum(0)
        slack = TOLERANCE * (1 + float(all_rows.abs().nan_to_num().max()))
        if not torch.allclose(added, together.double(), rtol=TOLERANCE, atol=slack):
            raise ProblemError(
                f"{name!r} of a batch is not the sum or mean over its rows",
                got=f"{together.flatten()[:3].tolist()} for a batch, {added.flatten()[:3].tolist()} over its rows",
                expected="a mean over rows, or statistics that are sums over rows",
                fix="hyperfront.problem: SetLoss for a function of sums over rows, Gathered for one of all rows",
            )
    if isinstance(measure, Mean):
        sums, rows = each
        return (sums / rows).cpu()
    return map_tensors(lambda tensor: tensor.double().cpu(), each)


def _row_by_row(measure: Any, output: Any, batch: Any) -> Any:
    """Compute the statistics of each row, ``[B, ...]``."""
    rows = batches.rows(batch)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # from functions that expect more than one row
        return _each(lambda pair: measure.statistics(*pair), batches.split((output, batch), rows), rows)


def _each(function: Callable[[Any], Any], nest: Any, count: int) -> Any:
    """Apply ``function`` to each entry of the nest's tensors ``[count, ...]``: by vmap if possible, else one by one."""
    crossing = Crossing(nest)
    try:
        found = torch.vmap(lambda parts: crossing.leave(function(crossing.batch(parts))))(crossing.parts)
        return crossing.nest(found)
    except (RuntimeError, ValueError, TypeError):  # such as a condition on a value
        return stack([function(map_tensors(lambda tensor: tensor[i], nest)) for i in range(count)])  # noqa: B023


def _inside(name: str, values: Tensor, bounds: tuple[float, float]) -> np.ndarray:
    """Return the values, or raise an error if one is beyond the bounds."""
    low, high = bounds
    slack = 1e-6 * (high - low)
    beyond = values[~((values >= low - slack) & (values <= high + slack))]
    if len(beyond):
        raise ProblemError(
            f"a row of {name!r} is beyond its bounds",
            got=f"{beyond[0].item():.6g}",
            expected=f"{low:g} to {high:g}",
            fix="state the true bounds, or none: then limits are certified by a bootstrap",
        )
    return values.double().clamp(low, high).numpy()


# ---- the bootstrap of each kind of measure ---------------------------------------------------------------------------


def _resampled_mean(values: Tensor, resamples: int) -> Resampled:
    values = values.double()
    mean, rows = values.mean(), len(values)
    without = (values.sum() - values) / (rows - 1)
    return Resampled(mean.item(), rows, (Bootstrap.of(mean, sums(values, resamples) / rows, without),))


def _resampled_gap(gap: Gap, values: Tensor, members: Tensor, resamples: int) -> Resampled:
    """A bootstrap for the difference of each pair of groups; a group without rows makes it infinite."""
    inside = members.double()
    each = torch.stack([inside * values.double(), inside], dim=1).permute(2, 1, 0)  # [N, 2, K]
    total, resampled = each.sum(0), sums(each, resamples)

    def differences(statistics: Tensor) -> Tensor:
        pairs, known = gap.differences(statistics), statistics[..., 1, :] > 0
        both = torch.stack([known[..., k] & known[..., l] for k, l in gap.pairs(known.shape[-1])], dim=-1)
        return torch.where(both, pairs, torch.inf)

    found, drawn, without = differences(total), differences(resampled), differences(total - each)
    parts = tuple(Bootstrap.of(found[p], drawn[:, p], without[:, p]) for p in range(len(found)))
    return Resampled(gap.value(total).item(), len(values), parts, absolute=True)


def _resampled_sums(measure: Any, each: Any, resamples: int) -> Resampled:
    """A function of sums: statistics ``[N, ...]`` of the rows are added with the counts of the resamples."""
    rows = len(tensors(each)[0])
    drawn = map_tensors(lambda tensor: sums(tensor, resamples), each)
    total = map_tensors(lambda tensor: tensor.sum(0), each)
    apart = map_tensors(lambda tensor, whole: whole - tensor, each, total)

    def value(statistics: Any) -> Tensor:
        return measure.value(statistics).reshape(()).double()

    def values(statistics: Any) -> Tensor:
        return _each(value, statistics, len(tensors(statistics)[0]))

    own = measure.value(total).reshape(()).double()
    return Resampled(own.item(), rows, (Bootstrap.of(own, values(drawn), values(apart)),))


def _resampled_rows(measure: Any, gathered: Any, resamples: int) -> Resampled:
    """A function of all rows at once: it is computed for each resample."""
    rows = batches.rows(gathered)
    generator = torch.Generator().manual_seed(0)
    taken = (torch.randint(rows, (rows,), generator=generator) for _ in range(resamples))
    drawn = [measure.value(batches.take(gathered, index)).reshape(()).double().cpu() for index in taken]
    own = measure.value(gathered).reshape(()).double().cpu()
    return Resampled(own.item(), rows, (Bootstrap.of(own, torch.stack(drawn), None),))


def _merged(measure: Any, pieces: list[Any]) -> Any:
    total, *others = pieces
    for piece in others:
        total = measure.merge(total, piece)
    return total


def rows_of(split: Split) -> int:
    """The number of rows of a split."""
    known = getattr(split.source, "rows", None)
    if isinstance(known, int):
        return known
    return sum(batches.rows(batch) for batch in split.source.batches(1024, torch.device("cpu")))
