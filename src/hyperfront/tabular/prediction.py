"""Predictions of a trained model for the rows of a table."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from hyperfront.errors import HyperfrontError
from hyperfront.errors.signatures import checked
from hyperfront.model import ParetoModel
from hyperfront.model.averaged import Averaged
from hyperfront.tabular.columns import Table
from hyperfront.tabular.reading import read
from hyperfront.tabular.schema import Schema

ROWS = 8192
"""Rows that go through the network together."""


@checked
@dataclass(frozen=True, eq=False)
class Prediction:
    """A model's predictions for the rows of a table."""

    values: np.ndarray
    """The class of every row as text ``[B]``, or a number ``[B]`` for regression."""
    probabilities: np.ndarray | None
    """The probability of the positive class ``[B]``, or of each class ``[B, K]``; None for regression."""
    unseen: dict[str, int]
    """Values that the training rows did not have, by column. The model treats them as missing."""
    schema: Schema

    def __post_init__(self) -> None:
        tables = [self.values] if self.probabilities is None else [self.values, self.probabilities]
        if self.values.ndim != 1 or any(table.ndim < 1 or len(table) != len(self.values) for table in tables):
            raise HyperfrontError("these are no predictions of rows", got=[list(table.shape) for table in tables])

    def columns(self) -> dict[str, np.ndarray]:
        """Return the columns of a file of predictions."""
        if self.probabilities is None:
            return {self.schema.target: self.values}
        if self.probabilities.ndim == 1:
            return {"probability": self.probabilities, self.schema.target: self.values}
        each = {f"probability of {name}": p for name, p in zip(self.schema.classes, self.probabilities.T)}
        return each | {self.schema.target: self.values}


@checked
def schema_of(model: nn.Module) -> Schema:
    """The schema that a model of a table holds."""
    module = model.target.skeleton if isinstance(model, ParetoModel) else model
    networks = list(module.members) if isinstance(module, Averaged) else [module]
    schema = getattr(networks[0], "schema", None)
    if isinstance(schema, Schema) and any(getattr(other, "schema", None) != schema for other in networks):
        raise HyperfrontError(
            "the members of the ensemble read tables in different ways",
            fix="train them on the same problem, with the same split",
        )
    if not isinstance(schema, Schema):
        raise HyperfrontError(
            "the model is not one of a table", got=type(module).__name__, expected="a model of tabular.problem(...)"
        )
    return schema


@checked
def predict(
    model: nn.Module,
    table: Table | str | Path,
    *,
    ray: Sequence[float] | Tensor | None = None,
    threshold: float = 0.5,
    encoding: str | None = None,
) -> Prediction:
    """Predict the rows of a table, with the model's network at ``ray``; ``model.at(ray)`` needs no ray.

    Of two classes, the positive one is predicted above a probability of ``threshold``.
    """
    schema = schema_of(model)
    if not 0 <= threshold <= 1:
        raise HyperfrontError("the threshold is no probability", got=threshold, expected="a number between 0 and 1")
    if isinstance(model, ParetoModel):
        if ray is None:
            raise HyperfrontError(
                "no trade-off was chosen to predict at",
                expected=f"one number for each of {', '.join(model.objectives)}",
                fix="ray=front.select(...).ray, or ray=[...]",
            )
        model = model.at(ray)
    elif ray is not None:
        raise HyperfrontError("the network is for one ray already", got=f"ray={ray}", fix="leave ray= out")
    columns: Any = read(table, encoding=encoding) if isinstance(table, str | Path) else table
    outputs = outputs_of(model, *schema.encode(columns))
    values, probabilities = decided(schema, outputs, threshold)
    return Prediction(values, probabilities, schema.unseen(columns), schema)


def outputs_of(network: nn.Module, numbers: Tensor, categories: Tensor) -> Tensor:
    """The outputs of a network for encoded rows, some rows at a time."""
    was_training = network.training
    network.eval()
    place = next(network.parameters()).device
    with torch.inference_mode():
        parts = [network(n.to(place), c.to(place)) for n, c in zip(numbers.split(ROWS), categories.split(ROWS))]
    network.train(was_training)
    return torch.cat(parts).cpu()


def decided(schema: Schema, outputs: Tensor, threshold: float = 0.5) -> tuple[np.ndarray, np.ndarray | None]:
    """Return the predictions ``[B]`` and probabilities of outputs."""
    if schema.task == "regression":
        return outputs.double().numpy(), None
    names = np.array(schema.classes, dtype=object)
    if schema.task == "binary":
        chance = outputs.double().sigmoid().numpy()
        return names[(chance > threshold).astype(int)], chance
    chances = outputs.double().softmax(-1).numpy()
    return names[chances.argmax(-1)], chances
