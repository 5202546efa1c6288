"""Validation: measure the front of a model on the validation data during training."""

from __future__ import annotations

import itertools
import math
from typing import Any

import torch
from torch import Tensor

from hyperfront import indicators
from hyperfront.errors import LossError
from hyperfront.front import Front, evaluate
from hyperfront.model import ParetoModel
from hyperfront.problem import Problem
from hyperfront.problem.sources import looking

CALIBRATION_BATCHES = 8


def validate(model: ParetoModel, problem: Problem, rays: Tensor, batch_size: int) -> tuple[Front, dict[str, Any]]:
    """Measure the validation front at ``rays [R, m]``; return it and its summary for the record of the epoch."""
    calibrate(model, problem, batch_size)
    with looking(problem.val.source, model.device):
        front = evaluate(model, problem.val, rays, batch_size=batch_size)
    _refuse_undefined(front)
    return front, {
        "hypervolume": indicators.hypervolume(front.losses, front.reference) if front.reference else None,
        "uniformity": None if math.isnan(uniformity := front.uniformity()) else uniformity,
        "rays": front.rays.tolist(),
        "losses": front.losses.tolist(),
        "scores": {name: values.tolist() for name, values in front.scores.items()},
    }


def _refuse_undefined(front: Front) -> None:
    """Raise an error for a front with NaN or infinite values: it can neither select weights nor be stored."""
    broken = {name: count for name, values in front.columns().items() if (count := int((~values.isfinite()).sum()))}
    if broken:
        raise LossError(
            "the validation data have losses or scores that are NaN or infinite",
            got=", ".join(f"{name} at {count} of {len(front)} rays" for name, count in broken.items()),
            fix="check the validation data for NaN, and that every loss and score is defined on them",
        )


def calibrate(model: ParetoModel, problem: Problem, batch_size: int) -> None:
    """Estimate BatchNorm statistics from a few full training batches: always the same ones in shuffled order, or the
    next ones of a loader."""
    source, generator = problem.train.source, torch.Generator().manual_seed(0)
    if model.target.norms:
        with looking(source, model.device):
            batches = source.epoch(batch_size, generator, model.device, 0)
            model.calibrate([problem.inputs(batch) for batch in itertools.islice(batches, CALIBRATION_BATCHES)])
