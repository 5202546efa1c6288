"""Rows of a table with probabilities and decisions, and the rates of groups at any threshold.

For two classes the page may move the threshold ``t`` by itself, so it gets counts instead of rates. With ``p_i`` the
probability of row ``i``, ``B = 100`` bins, and the rows of a group ``k`` and a label ``y``,

    count[k, y, b] = number of rows with b / B < p_i <= (b + 1) / B,

the share of these rows that are decided positively at ``t = b / B`` is ``sum over c >= b of count[k, y, c] / n``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, final

import torch
from torch import Tensor

from hyperfront.problem.presentation import Decision
from hyperfront.problem.problem import Split
from hyperfront.problem.samples.inputs import first_rows, rounded
from hyperfront.storage.batches import Batch, rows

BINS = 100
SHOWN = 8
"""Rows shown, if that is enough for one row of each group and label."""
MOST = 20_000
"""The most rows for the rates of groups; every drag of the handle predicts all of them."""
FIELDS = 3
"""The number of columns in the title of a row."""


@dataclass(frozen=True)
class Grouping:
    """Groups of rows by a sensitive column, such as ``Grouping("sex", ("women", "men"), lambda batch: batch[3])``."""

    name: str
    groups: tuple[str, ...]
    codes: Callable[[Batch], Tensor]
    """The number of each row's group, ``[B]``; numbers outside of ``groups`` belong to none."""


@final
class TableSamples:
    """A few rows for every pair of label and group, and rates of every group over the split.

    ``readable`` gives the columns of one row of a batch as texts. ``labels`` are ``[B]``: true or false for two
    classes, class numbers for more, numbers without a ``decision``, where the output is the predicted number.
    ``title`` names a row in a few words, by default with its first columns.
    """

    def __init__(
        self,
        split: Split,
        *,
        readable: Callable[[Batch, int], Mapping[str, str]],
        labels: Callable[[Batch], Tensor],
        decision: Decision | None,
        groupings: Sequence[Grouping] = (),
        predicted: str = "",
        title: Callable[[Mapping[str, str]], str] | None = None,
    ):
        batch = first_rows(split, MOST)
        self.decision, self.groupings, self.predicted = decision, groupings, predicted
        self.inputs, self.labels = split.problem.inputs(batch), labels(batch)
        self.codes = [grouping.codes(batch).long() for grouping in groupings]
        self.count = rows(self.inputs)
        self.shown = self._choose()
        self.title = title or (
            lambda fields: ", ".join(f"{name} {value}" for name, value in [*fields.items()][:FIELDS])
        )
        self.fields = [dict(readable(batch, row)) for row in self.shown]

    @property
    def task(self) -> str:
        if self.decision is None:
            return "regression"
        return "binary" if len(self.decision.classes) == 2 else "classes"

    def _choose(self) -> list[int]:
        """Row numbers, evenly from the cells of label and first grouping."""
        codes = self.codes[0] if self.codes else torch.zeros(self.count, dtype=torch.long)
        groups = range(len(self.groupings[0].groups)) if self.groupings else range(1)
        found = [None] if self.decision is None else reversed(range(len(self.decision.classes)))
        cells = [
            ((codes == k) & (True if y is None else self.labels.long() == y)).nonzero()[:, 0].tolist()
            for y in found
            for k in groups
        ]
        each = max(1, SHOWN // len(cells))
        return [row for cell in cells for row in cell[:each]][: 2 * SHOWN]

    def document(self) -> dict[str, Any]:
        truth, decision = self.labels[self.shown], self.decision
        return {
            "kind": "table",
            "task": self.task,
            "predicted": self.predicted,
            "classes": [*decision.classes] if decision else [],
            "threshold": decision.threshold if decision else None,
            "rows": self.count,
            "groupings": [{"name": g.name, "groups": [*g.groups]} for g in self.groupings],
            "items": [
                {
                    "title": self.title(fields),
                    "fields": fields,
                    "truth": rounded(truth[row]) if decision is None else int(truth[row]),
                    "groups": [int(codes[self.shown[row]]) for codes in self.codes],
                }
                for row, fields in enumerate(self.fields)
            ],
        }

    def predict(self, network: Callable[[Any], Any]) -> Any:
        """Predictions of the rows shown, and of every grouping the counts or rates of its groups."""
        output = network(self.inputs)
        values = self.decision.probabilities(output) if self.decision else output.reshape(self.count)
        rates = self._counts if self.task == "binary" else self._errors
        return {
            "rows": rounded(values[self.shown]),
            "groupings": [
                [rates(values, codes == k) for k in range(len(grouping.groups))]
                for grouping, codes in zip(self.groupings, self.codes)
            ],
        }

    def rates(self, found: Mapping[str, Any]) -> dict[str, float]:
        """The rates of a group, as :meth:`predict` counted it, at the threshold of the decision."""
        if self.decision is None or self.task != "binary":
            return dict(found)
        start = round(self.decision.threshold * BINS)
        negative, positive = (sum(bins) for bins in found["counts"])
        wrong, right = (sum(bins[start:]) for bins in found["counts"])
        rows = negative + positive
        return {
            f"decided {self.decision.classes[1]}": (wrong + right) / max(1, rows),
            "error": (wrong + positive - right) / max(1, rows),
            "false positives": wrong / max(1, negative),
            "false negatives": (positive - right) / max(1, positive),
            "rows": rows,
        }

    def _counts(self, probability: Tensor, group: Tensor) -> Any:
        """``counts [2 labels][BINS]`` and the mean probability of each label."""
        edges = torch.arange(1, BINS, dtype=torch.float64) / BINS
        bins = torch.bucketize(probability.double(), edges)
        positive = self.labels.bool()
        cells = [group & ~positive, group & positive]
        return {
            "counts": [torch.bincount(bins[cell], minlength=BINS).tolist() for cell in cells],
            "means": [rounded(probability[cell].mean().nan_to_num()) for cell in cells],
        }

    def _errors(self, values: Tensor, group: Tensor) -> dict[str, float]:
        """The rows of a group, and their error: of decisions, or of numbers."""
        wrong = values.argmax(-1) != self.labels if self.decision else (values - self.labels).abs()
        return {"rows": int(group.sum()), "error": rounded(wrong[group].double().mean().nan_to_num())}


def _first_fields(fields: Mapping[str, str]) -> str:
    return ", ".join(f"{name} {value}" for name, value in [*fields.items()][:FIELDS])
