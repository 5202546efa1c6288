"""The presentation of a table on pages, by the server and in cards: rows with column names, decisions, and groups."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

import torch
from torch import Tensor

from hyperfront.problem import Decision, Presentation, Split
from hyperfront.problem.samples import Grouping, TableSamples
from hyperfront.tabular.schema import Schema


def presentation(schema: Schema, data: Mapping[str, Any]) -> Presentation:
    """Make the presentation of a table with this schema; ``data`` says where its rows are from."""
    decision = decision_of(schema)
    name = str(data.get("path") or "").replace("\\", "/").rpartition("/")[2]
    kinds = f"{len(schema.numbers)} columns of numbers, {len(schema.categories)} of categories"
    lines = [f"The table {name}" if name else "A table in memory", f"{kinds}, target {schema.target}"]
    lines += [f"SHA-256 of the file: {data['sha256']}"] if data.get("sha256") else []
    groups = [f"By {', '.join(schema.sensitive)}: {', '.join(schema.groups)}"] if schema.groups else []
    return Presentation(
        title=f"{schema.target}, predicted from {name}" if name else f"Prediction of {schema.target}",
        samples=partial(_samples, schema, decision),
        decision=decision,
        encode=schema.encode,
        columns=tuple(column.name for column in schema.columns),
        data=tuple(lines),
        groups=tuple(groups),
    )


def decision_of(schema: Schema) -> Decision | None:
    """Make the rule that turns outputs into probabilities and classes; None for regression."""
    if schema.task == "regression":
        return None
    return Decision(torch.sigmoid if schema.task == "binary" else _softmax, schema.classes)


def _softmax(output: Tensor) -> Tensor:
    return output.softmax(-1)


def _samples(schema: Schema, decision: Decision | None, split: Split) -> TableSamples:
    labels = {column.name: column.label or column.name for column in schema.columns}

    def readable(batch: Any, row: int) -> dict[str, str]:
        return {labels[name]: text for name, text in schema.readable(batch[0][row], batch[1][row]).items()}

    by = [Grouping(", ".join(schema.sensitive), schema.groups, lambda batch: batch[3] - 1)] if schema.groups else []
    predicted = schema.target if schema.task != "binary" else f"{schema.target} = {schema.classes[1]}"
    return TableSamples(
        split,
        readable=readable,
        labels=lambda batch: batch[2],
        decision=decision,
        groupings=by,
        predicted=predicted,
    )
