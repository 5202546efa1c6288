"""Tables of numbers that a user passes: tensors, arrays or nested sequences, as float64 tensors on the CPU."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from hyperfront.errors import HyperfrontError, shown
from hyperfront.errors.signatures import is_plain

MOST = 10**8
"""The most numbers of a table that is no tensor yet."""
UNREADABLE = (TypeError, ValueError, RuntimeError, OverflowError, RecursionError, AttributeError)
"""The errors of torch and NumPy for a nest that is no table."""


def as_table(name: str, values: object, dims: int = 2, *, error: type[HyperfrontError] = HyperfrontError) -> Tensor:
    """Return real numbers with ``dims`` dimensions as a float64 tensor on the CPU, without a graph.

    >>> as_table("losses", [[1, 2]])
    tensor([[1., 2.]], dtype=torch.float64)
    """
    table = as_numbers(name, values, error=error).detach().to("cpu", torch.float64)
    if table.ndim != dims:
        raise error(
            f"{name} have the wrong shape",
            got=list(table.shape),
            expected=("a number", "[m]", "[R, m]", "[R, m, m]")[dims],
        )
    return table


def as_numbers(
    name: str,
    values: object,
    *,
    dtype: torch.dtype | None = torch.float64,
    error: type[HyperfrontError] = HyperfrontError,
) -> Tensor:
    """Return real numbers of any shape as a tensor; a tensor stays as it is, on its device and in its graph."""
    if isinstance(values, Tensor) and is_plain(values):
        return values
    if not isinstance(values, Tensor) and _may_be_numbers(values):
        if isinstance(values, np.ndarray) and not values.flags.writeable:
            values = values.copy()  # PyTorch warns of arrays that it may not write into
        try:
            table = torch.as_tensor(values, dtype=dtype)
            if is_plain(table):
                return table
        except UNREADABLE:
            pass
    raise error(f"{name} are not numbers", got=shown(values), expected="a tensor or nested lists of real numbers")


def _may_be_numbers(values: object) -> bool:
    """Whether a value is a number, an array of real numbers, or a sequence that begins with such values."""
    for _ in range(8):
        if isinstance(values, np.ndarray | np.generic):
            return values.dtype.kind in "biuf" and values.size <= MOST
        if isinstance(values, str | bytes) or not isinstance(values, Sequence):
            return isinstance(values, int | float)
        if len(values) > MOST:
            return False
        if any(isinstance(entry, str | bytes) for entry in itertools.islice(values, 8)) or not len(values):
            return not len(values)
        values = values[0]
        if isinstance(values, Tensor):
            return is_plain(values)
    return False
