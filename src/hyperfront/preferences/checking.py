"""Checks of the rays that a user passes."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from hyperfront.errors import RayError
from hyperfront.errors.signatures import checked
from hyperfront.errors.tables import as_numbers
from hyperfront.preferences.grids import rays

Rays = Any
"""A tensor, an array, or nested sequences; for :func:`layout` also a number."""


@checked
def validate(rays: Rays, m: int, names: Sequence[str] | None = None) -> Tensor:
    """Return the rays as a float tensor ``[R, m]`` on the simplex, or raise an error that names the objective at fault.

    One ray ``[m]`` becomes ``[1, m]``. Rays that do not sum to 1 are normalized with a notice.
    """
    table = as_numbers("rays", rays, dtype=None, error=RayError)
    table = table if table.dtype in (torch.float32, torch.float64) else table.to(torch.float64)
    table = table.unsqueeze(0) if table.ndim == 1 else table
    if table.ndim != 2 or table.shape[1] != m or not len(table):
        raise RayError(
            "rays have the wrong shape",
            got=list(table.shape),
            expected=f"[{m}], or [R, {m}] for several, with an entry for each of "
            + (", ".join(names) if names else f"{m} objectives"),
            fix=f"hyperfront.rays(25, m={m}) lays out 25 of them",
        )
    for fault, mask in {"NaN or infinite": ~table.isfinite(), "negative": table < 0}.items():
        if mask.any():
            row, column = (int(i) for i in mask.nonzero()[0])
            name = names[column] if names else f"objective {column}"
            raise RayError(
                f"ray {row} has a {fault} entry",
                got=f"{name} = {table[row, column].item():g}",
                expected="non-negative numbers that sum to 1",
            )
    total = table.sum(-1, keepdim=True)
    if (total == 0).any():
        raise RayError(
            f"ray {int((total == 0).nonzero()[0, 0])} is all zero",
            expected="at least one positive entry",
            fix="an indifferent ray is [1/m, ..., 1/m]",
        )
    if ((total - 1).abs() > 1e-5).any():
        warnings.warn("rays do not sum to 1: they were normalized", stacklevel=2)
        table = table / table.amax(-1, keepdim=True)  # first, so that huge entries do not overflow
        table = table / table.sum(-1, keepdim=True)
    return table


def as_tuples(rays: Rays) -> tuple[tuple[float, ...], ...]:
    """Fixed rays as tuples of numbers, from a tensor, lists or JSON, or an error about the first that is no ray."""
    table = as_numbers("rays", rays, error=RayError)
    if table.ndim != 2 or table.shape[1] < 2:
        raise RayError("rays have the wrong shape", got=list(table.shape), expected="[R, m] with m >= 2")
    validate(table, table.shape[1])
    return tuple(map(tuple, rays.tolist() if isinstance(rays, Tensor) else rays))


@checked
def layout(which: Rays, m: int, names: Sequence[str]) -> Tensor:
    """Return rays for evaluation, ``[R, m]`` float64 on the CPU: a number of rays is laid out by :func:`rays`."""
    return validate(rays(which, m) if isinstance(which, int) else which, m, names).double().cpu()
