"""Measure the front of a model on a split."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from hyperfront import preferences
from hyperfront.errors import ProblemError, check_number
from hyperfront.errors.signatures import checked_except
from hyperfront.front.front import Front
from hyperfront.front.origin import Origin
from hyperfront.front.threads import few_for_small_work, work
from hyperfront.model import ParetoModel
from hyperfront.model.derivatives import retried
from hyperfront.model.expected import expect_model
from hyperfront.model.normalization import modes_kept
from hyperfront.model.substitution import called
from hyperfront.problem import Problem, Split
from hyperfront.problem.losses import Measure
from hyperfront.problem.sources import TensorSource
from hyperfront.storage.nests import map_tensors


@checked_except("model")
def evaluate(
    model: ParetoModel, split: Split | Problem, rays: Tensor | Sequence | int = 25, *, batch_size: int = 1024
) -> Front:
    """Measure the front of ``model`` on a split, at ``rays``: a table of rays, or their number, for an even grid.

    Each loss declares how it is evaluated (:mod:`hyperfront.problem.losses`): a plain function is averaged over
    batches, weighted by their rows; a ``SetLoss`` or ``Gathered`` is computed once over the whole split.

    >>> from hyperfront.problem.registry import build
    >>> problem = build("fonseca")
    >>> evaluate(problem.model(), problem, rays=[[0.2, 0.8], [0.5, 0.5], [0.8, 0.2]]).losses.shape
    torch.Size([3, 2])
    """
    check_number("batch_size", batch_size, 1, whole=True)
    if isinstance(split, Problem):
        if split.has_data:
            raise ProblemError(
                "evaluate measures one split", got="a problem", fix="pass problem.val, or once problem.test"
            )
        split = split.val
    if not isinstance(split, Split):
        raise ProblemError(
            "evaluate needs a split of a problem, which holds data and losses",
            got=type(split).__name__,
            expected="problem.val or problem.test, with problem = hyperfront.supervised(...)",
        )
    problem = split.problem
    problem.check_model(expect_model(model, "evaluate"))
    table = preferences.layout(rays, model.m, model.objectives)
    with few_for_small_work(model.device, lambda: _work(model, split, batch_size)):
        losses, scores = _measure(model, split, table, batch_size)
    record = {key: value for key, value in model.record.items() if key not in ("convention", "units")}
    return Front(
        objectives=tuple(problem.objectives),
        rays=table,
        losses=losses,
        scores=scores,
        reference=problem.reference,
        truth=None if problem.truth is None else problem.truth.points,
        convention=model.record.get("convention", "inverse"),
        provenance=record | ({"split": split.name} if problem.has_data else {}),
        evaluator=lambda more: evaluate(model, split, more, batch_size=batch_size),
        origin=Origin(model, split) if problem.has_data else None,
        meanings=problem.meanings,
    )


def _work(model: ParetoModel, split: Split, batch_size: int) -> float:
    """The multiply-adds of one network for one batch, if the rows are in memory; loaders are not read twice."""
    problem = split.problem
    if not problem.has_data:
        return 0.0
    if not isinstance(split.source, TensorSource):
        return math.inf
    return work(model, problem.inputs(next(split.source.batches(batch_size, model.device))))


@torch.no_grad()
def _measure(model: ParetoModel, split: Split, rays: Tensor, batch_size: int) -> tuple[Tensor, dict[str, Tensor]]:
    """Compute losses ``[R, m]`` and scores ``[R]`` each, over all rows of the split."""
    problem = split.problem
    measures = {**problem.measures, **{f"score {name}": score for name, score in problem.scores.items()}}
    at_once = max(1, 2**26 // model.target.held)  # rays whose weights fit in a quarter of a gigabyte

    @retried  # for losses that take derivatives of the output
    def statistics(network: Any, batch: Any) -> Any:
        output = called(network, problem.inputs(batch))
        if problem.function is not None:
            return {"all": problem.function(output).double()}
        found = {name: measure.statistics(output, batch) for name, measure in measures.items()}
        return {name: map_tensors(_widened, s) if measures[name].additive else s for name, s in found.items()}

    with modes_kept(model, model.target):
        model.eval()
        found: list[dict[str, Any]] = []  # the statistics of each ray over all batches so far
        for part in model.prepare(rays).split(at_once):
            theta, sums = model.hypernet(part), dict[str, Any]()  # sums of all rays at once
            others = [dict[str, Any]() for _ in part]  # statistics that cannot be added, ray by ray
            for batch in split.source.batches(batch_size, model.device):
                stacked = model.target.map(statistics, theta, part, batch, split=False)
                apart = {
                    name: stacked.pop(name) for name in [*stacked] if name in measures and not measures[name].additive
                }
                sums = _merged(measures, sums, stacked)
                if apart:
                    others = [_merged(measures, *pair) for pair in zip(others, _each_ray(apart, len(part)))]
            if not sums and not any(others):
                raise ProblemError(f"the {split.name} split is empty")
            found += [total | other for total, other in zip(_each_ray(sums, len(part)), others)]

    def values(name: str) -> Tensor:
        return torch.stack([measures[name].value(total[name]).reshape(()).double().cpu() for total in found])

    if problem.function is not None:
        raw = torch.stack([total["all"] for total in found]).cpu()
    else:
        raw = torch.stack([values(name) for name in problem.measures], dim=1)
    return problem.units.apply(raw), {name: values(f"score {name}") for name in problem.scores}


def _merged(measures: Mapping[str, Measure], first: dict[str, Any], second: dict[str, Any]) -> dict[str, Any]:
    """Merge the statistics of two sets of rows; the first set may be empty."""
    return {name: measures[name].merge(first[name], new) if first else new for name, new in second.items()}


def _each_ray(stacked: dict[str, Any], count: int) -> list[dict[str, Any]]:
    return [map_tensors(lambda tensor: tensor[ray], stacked) for ray in range(count)]  # noqa: B023


def _widened(tensor: Tensor) -> Tensor:
    """Convert to float64, in which sums over a split are taken."""
    return tensor.double() if tensor.is_floating_point() else tensor
