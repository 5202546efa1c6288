"""Requests with rows of a table: from JSON with column names to the tensors of the module, and back to predictions."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from torch import Tensor

from hyperfront.apps.serve.deciding import Decider
from hyperfront.apps.serve.documents import read
from hyperfront.apps.serve.options import Limits
from hyperfront.apps.serve.predictor import Query
from hyperfront.apps.shared.refusal import Refusal
from hyperfront.storage.batches import Batch
from hyperfront.storage.nests import tensors


@dataclass(frozen=True, eq=False)
class RowFormat:
    """The columns that the module is fed from, and how its outputs are read."""

    columns: tuple[str, ...]
    encode: Callable[[Mapping[str, Sequence[Any]]], Batch]
    decider: Decider | None

    def decode(self, body: bytes | bytearray, limits: Limits, rays: Callable[[Any], np.ndarray]) -> Query:
        """Read ``{"rows": [{column: value}], "ray": [...]}``; ``rays`` reads the ray or finds the default."""
        document, _ = read(body, None, limits)
        if unknown := [name for name in document if name not in ("rows", "ray")]:
            raise Refusal("the request is not understood", got=unknown[0][:80], expected='"rows" and "ray"')
        given = document.get("rows")
        if not isinstance(given, list) or not all(isinstance(row, dict) for row in given):
            raise Refusal("rows is not a list of objects", expected=f'"rows": [{{"{self.columns[0]}": ...}}]')
        if not 1 <= len(given) <= limits.rows:
            raise Refusal(
                "wrong number of rows", got=len(given), expected=f"1 to {limits.rows}", status=413 if given else 400
            )
        for number, row in enumerate(given):
            if missing := [name for name in self.columns if name not in row]:
                raise Refusal(
                    f"row {number} lacks a column", expected=missing[0], fix="send null for a value that is missing"
                )
            if nested := [name for name in self.columns if isinstance(row[name], list | dict)]:
                raise Refusal(f"row {number} has no single value", got=nested[0])
        batch = self.encode({name: [row[name] for row in given] for name in self.columns})
        return Query(rays(document.get("ray")), tuple(tensors(batch)), len(given))

    def answer(self, query: Query, outputs: Sequence[Tensor]) -> dict[str, Any]:
        """The predictions of the rows, and the ray."""
        if self.decider is not None:
            found = self.decider.answers(outputs)
        else:
            found = [{"value": value} for value in outputs[0].reshape(query.rows, -1).squeeze(-1).tolist()]
        return {"ray": query.rays[0].tolist(), "predictions": found}
