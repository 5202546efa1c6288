"""Inputs of the estimators: convert X and sensitive features to columns by name."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.utils.validation import check_consistent_length, validate_data  # pyrefly: ignore[missing-module-attribute]

from hyperfront.tabular.columns import Columns, columns_of
from hyperfront.tabular.kinds import Kind


def is_frame(X: Any) -> bool:
    """Whether X is a DataFrame, whose columns may have different kinds; anything else is an array of numbers."""
    return hasattr(X, "columns") and hasattr(X, "shape")


def inputs_of(estimator: Any, X: Any, *, reset: bool) -> Columns:
    """Return the columns of X, checked by scikit-learn; ``reset`` remembers their number and names."""
    if is_frame(X):
        validate_data(estimator, X, reset=reset, skip_check_array=True)
        return columns_of(X)
    options: dict[str, Any] = {"dtype": np.float64, "ensure_all_finite": "allow-nan"}
    array = validate_data(estimator, X, reset=reset, ensure_min_samples=2 if reset else 1, **options)
    names = [f"x{place}" for place in range(array.shape[1])] if reset else estimator.columns_
    return dict(zip(names, array.T))


def kinds_of(X: Any, columns: Columns) -> dict[str, Kind]:
    """Return the kinds of the columns that need not be discovered: columns of an array are numbers."""
    return {} if is_frame(X) else dict.fromkeys(columns, "number")


def sensitive_of(given: Any, X: Any, taken: Columns) -> Columns:
    """Return the sensitive columns: a vector, a DataFrame, a mapping, or an array with one column each."""
    if given is None:
        return {}
    check_consistent_length(X, next(iter(given.values())) if isinstance(given, dict) else given)
    if isinstance(given, dict) or is_frame(given):
        found = columns_of(given)
    else:
        name, array = getattr(given, "name", None), np.asarray(given)
        array = array.reshape(len(array), -1)
        names = [str(name or "group")] if array.shape[1] == 1 else [f"group {n}" for n in range(array.shape[1])]
        found = dict(zip(names, array.T))
    return {f"sensitive {name}" if name in taken else name: column for name, column in found.items()}
