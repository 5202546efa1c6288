"""Cheap properties of results: what is promised must hold for every input that is accepted."""

from __future__ import annotations

import math
import types
from collections.abc import Mapping
from typing import Any, Literal, get_args, get_origin

import torch
from torch import Tensor

from tests.fuzz import signatures
from tests.fuzz.campaign import Wrong
from tests.fuzz.signatures import Target

SIMPLEX = {"hyperfront.rays", "hyperfront.preferences.das_dennis", "hyperfront.preferences.shifted_grid"}
FINITE = {
    "hyperfront.indicators.hypervolume",
    "hyperfront.indicators.spacing",
    "hyperfront.indicators.nondominated_share",
}


CHECKED_LATER = ("ParetoClassifier", "ParetoRegressor")
"""Estimators, whose constructors take everything by the rules of scikit-learn: ``fit`` checks."""


def check(target: Target, result: Any, given: Mapping[str, Any]) -> None:
    """Raise :class:`Wrong` if a result lacks a promised property, or if a misspelt argument has a result."""
    if not target.name.endswith(CHECKED_LATER):
        _spelling(target, given)
    name = target.name
    last = name.rpartition(".")[2]
    if name in SIMPLEX or (last in ("sample", "validate", "prepare", "check") and isinstance(result, Tensor)):
        _rays(result)
    elif name in FINITE and not (math.isfinite(result) and result >= 0):
        raise Wrong(f"{result} is not a finite number from 0")
    elif last == "__call__" and ".solvers." in name and isinstance(result, tuple) and len(result) == 2:
        weights, status = result
        if isinstance(status, Tensor) and status.dtype == torch.uint8 and status.shape != weights.shape[:1]:
            raise Wrong("status and weights differ in the number of rays")


def _spelling(target: Target, given: Mapping[str, Any]) -> None:
    """A choice is one of those in the signature, and a number is a number."""
    kinds = {parameter.name: kind for parameter, kind in signatures.parameters(target.call)}
    for name, value in given.items():
        parts = signatures.alternatives(kinds[name])
        choices = [choice for part in parts if get_origin(part) is Literal for choice in get_args(part)]
        if choices and isinstance(value, str) and str not in parts and value not in choices:
            raise Wrong(f"{name}={value!r} was accepted, which is none of {choices}")
        if parts <= {int, float, types.NoneType} and (isinstance(value, str) or value != value):
            raise Wrong(f"{name}={value!r} was accepted, which is no number")


def _rays(rays: Tensor) -> None:
    if rays.ndim != 2 or not rays.isfinite().all() or (rays < 0).any() or ((rays.sum(-1) - 1).abs() > 1e-4).any():
        raise Wrong("a ray is no point of the simplex")
