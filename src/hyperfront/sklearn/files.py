"""Estimators in files: tensors and JSON, without pickle and without code."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from hyperfront.errors import CheckpointError
from hyperfront.model import restore
from hyperfront.storage import checkpoint
from hyperfront.tabular import Schema
from hyperfront.tabular.network import TableNet

PARTS = ("numbers", "categories", "target", "group")
PLAIN = (str, int, float, bool, type(None))


def save(estimator: Any, path: Path) -> None:
    """Write a fitted estimator."""
    parameters = {name: _plain(name, value) for name, value in estimator.get_params().items()}
    fitted = {
        "parameters": parameters,
        "schema": estimator.schema_.document(),
        "columns": estimator.columns_,
        "names": getattr(estimator, "feature_names_in_", np.array([])).tolist(),
        "ray": estimator.ray_.tolist(),
        "splits": list(estimator._rows),
        "classes": [_plain("classes_", value) for value in getattr(estimator, "classes_", np.array([])).tolist()],
    }
    tensors = {f"model.{name}": tensor for name, tensor in estimator.model_.state_dict().items()}
    for split, rows in estimator._rows.items():
        tensors |= {f"rows.{split}.{name}": part for name, part in zip(PARTS, rows)}
    document = {"estimator": type(estimator).__name__, "fitted": fitted, "model": estimator.model_.document()}
    checkpoint.write(path, tensors, document)


def load(kind: type[Any], path: Path) -> Any:
    """Read an estimator of this kind."""
    tensors, document = checkpoint.read(path)
    if document.get("estimator") != kind.__name__:
        raise CheckpointError(
            "the file holds no estimator of this kind",
            got=document.get("estimator", "no estimator"),
            expected=kind.__name__,
        )
    try:
        fitted = document["fitted"]
        parameters = {name: _unlisted(value) for name, value in fitted["parameters"].items()}
        estimator = kind(**parameters)
        estimator.schema_ = Schema.read(fitted["schema"])
        module = TableNet(estimator.schema_, estimator.network)
        own = {name.removeprefix("model."): t for name, t in tensors.items() if name.startswith("model.")}
        estimator.model_ = restore(own, document["model"], module)
        estimator.columns_ = list(fitted["columns"])
        estimator.n_features_in_ = len(estimator.columns_)
        if fitted["names"]:
            estimator.feature_names_in_ = np.array(fitted["names"], dtype=object)
        if fitted["classes"]:
            estimator.classes_ = np.array(fitted["classes"])
        estimator.ray_ = estimator.model_.check(fitted["ray"])[0].double().numpy()
        splits = _splits(fitted["splits"])
        estimator._rows = {split: tuple(tensors[f"rows.{split}.{name}"] for name in PARTS) for split in splits}
        estimator._front = None
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise CheckpointError("the estimator in the file is damaged", got=f"{path}: {error!r}") from None
    return estimator


def _splits(names: Any) -> list[str]:
    if sorted({*names} - {"calibration"}) not in (["train"], ["val"]):
        raise ValueError(f"splits {names}")
    return names


def _plain(name: str, value: Any) -> Any:
    """A parameter as JSON; a function has no place in a file."""
    if isinstance(value, np.integer | np.floating):
        return value.item()
    if isinstance(value, list | tuple):
        return [_plain(name, each) for each in value]
    if not isinstance(value, PLAIN):
        raise CheckpointError(
            f"the parameter {name!r} cannot be written without pickle",
            got=type(value).__name__,
            expected="numbers, texts and lists of them",
        )
    return value


def _unlisted(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value
