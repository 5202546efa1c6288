"""Validation: measure the front of a model on the validation data during training."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from hyperfront import indicators
from hyperfront.errors import LossError
from hyperfront.front import Front, evaluate
from hyperfront.model import ParetoModel
from hyperfront.problem import Problem, Split
from hyperfront.problem.sources import looking
from hyperfront.training.team import ALONE, Team

CALIBRATION_BATCHES = 8


def validate(
    model: ParetoModel, problem: Problem, rays: Tensor, batch_size: int, team: Team = ALONE
) -> tuple[Front, dict[str, Any]]:
    """Measure the validation front at ``rays [R, m]``; return it and its summary for the record of the epoch."""
    calibrate(model, problem, batch_size, team)
    with looking(problem.val.source, model.device):
        front = measured(model, problem.val, rays, batch_size=batch_size, team=team)
    _refuse_undefined(front)
    return front, {
        "hypervolume": indicators.hypervolume(front.losses, front.reference) if front.reference else None,
        "uniformity": None if math.isnan(uniformity := front.uniformity()) else uniformity,
        "rays": front.rays.tolist(),
        "losses": front.losses.tolist(),
        "scores": {name: values.tolist() for name, values in front.scores.items()},
    }


def measured(model: ParetoModel, split: Split, rays: Tensor, *, batch_size: int, team: Team) -> Front:
    """Measure a front: every rank measures some rays, on all rows. So any loss and any loader can be used."""
    if team.alone:
        return evaluate(model, split, rays, batch_size=batch_size)
    own = rays[team.rank :: team.size]
    front = evaluate(model, split, own if len(own) else rays[:1], batch_size=batch_size)
    losses, *scores = team.share(lambda _: [front.losses, *front.scores.values()], rays)
    return replace(front, rays=rays, losses=losses, scores=dict(zip(front.scores, scores)))


def _refuse_undefined(front: Front) -> None:
    """Raise an error for a front with NaN or infinite values: it can neither select weights nor be stored."""
    broken = {name: count for name, values in front.columns().items() if (count := int((~values.isfinite()).sum()))}
    if broken:
        raise LossError(
            "the validation data have losses or scores that are NaN or infinite",
            got=", ".join(f"{name} at {count} of {len(front)} rays" for name, count in broken.items()),
            fix="check the validation data for NaN, and that every loss and score is defined on them",
        )


def calibrate(model: ParetoModel, problem: Problem, batch_size: int, team: Team = ALONE) -> None:
    """Estimate BatchNorm statistics from a few full training batches: always the same ones in shuffled order, or the
    next ones of a loader. Every rank does so for some of the grid rays."""
    source, generator = problem.train.source, torch.Generator().manual_seed(0)
    if model.target.norms:
        with looking(source, model.device):
            if not team.alone:
                torch.manual_seed(0)  # a shuffling loader gives all ranks the same batches
            batches = source.epoch(batch_size, generator, model.device, 0)
            inputs = [problem.inputs(batch) for batch in itertools.islice(batches, CALIBRATION_BATCHES)]
            model.calibrate(inputs, share=None if team.alone else team.share)
