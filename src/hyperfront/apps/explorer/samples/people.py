"""Fairness: rows of a table with predicted probabilities, and the error rates of the two groups."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from hyperfront.apps.explorer.samples.pixels import first_rows, rounded
from hyperfront.errors import DataError
from hyperfront.problem import Problem, Split
from hyperfront.storage.batches import rows, take
from hyperfront.zoo import fairness

PER_CELL = 2
"""Rows shown of each cell of label and group."""
WORDS = {  # the label, the protected group, the other group, and a row in a few words
    "adult": ("income above 50K", "women", "men", "{age}, {education}, {occupation}"),
    "default": ("default next month", "women", "men", "age {AGE}, limit {LIMIT_BAL}, delay {PAY_0}"),
    "bank": ("says yes to the call", "under 25 or from 60", "25 to 59", "{age}, {job}, {marital}"),
}


class PeopleSamples:
    """A few rows for every pair of label and group; the gaps are computed over the whole split."""

    def __init__(self, name: str, split: Split):
        self.name = name
        self.whole = first_rows(split, 10**9)
        labels, protected = self.whole[2:]
        cells = [
            ((labels == y) & (protected == a)).nonzero()[:PER_CELL, 0] for y in (True, False) for a in (True, False)
        ]
        self.shown = torch.cat(cells)
        self.inputs = split.problem.inputs
        self.table = self._readable(split.problem)

    def _readable(self, problem: Problem) -> list[dict[str, str]]:
        """The rows shown, with the numbers and names of the file, before standardization."""
        data = fairness.DATA_SETS[self.name]
        people = data.load(problem.data_dir)
        chosen = fairness.split(len(people.label), (problem.identity or {})["arguments"]["rows"])["val"]
        if len(chosen) != rows(self.whole):
            raise DataError("the validation rows do not match the data file", got=len(chosen))
        table = []
        for row in chosen[self.shown.numpy()]:
            numbers = {name: f"{value:g}" for name, value in zip(data.numbers, people.numbers[row])}
            kinds = {n: names[code] for (n, names), code in zip(data.categories.items(), people.categories[row])}
            both = numbers | kinds
            table.append({name: both[name] for name in data.features})
        return table

    def document(self) -> dict[str, Any]:
        predicted, protected, others, words = WORDS[self.name]
        _, _, labels, member = take(self.whole, self.shown)
        return {
            "kind": "people",
            "predicted": predicted,
            "groups": [protected, others],
            "items": [
                {
                    "title": words.format(**fields),
                    "fields": fields,
                    "truth": bool(labels[row]),
                    "group": 0 if member[row] else 1,
                }
                for row, fields in enumerate(self.table)
            ],
        }

    def predict(self, network: Callable[[Any], Any]) -> Any:
        """Probabilities of the rows shown, and the error rates and mean probabilities of each group."""
        probability = network(self.inputs(self.whole)).sigmoid()
        _, _, labels, protected = self.whole
        groups = [self._rates(probability, labels, group) for group in (protected, ~protected)]
        return {"probabilities": rounded(probability[self.shown]), "groups": groups}

    @staticmethod
    def _rates(probability: Tensor, labels: Tensor, group: Tensor) -> dict[str, float]:
        negative, positive = probability[group & ~labels], probability[group & labels]
        found = {
            "false positives": (negative > 0.5).double().mean(),
            "false negatives": (positive <= 0.5).double().mean(),
            "mean probability, label no": negative.mean(),
            "mean probability, label yes": positive.mean(),
        }
        return {name: rounded(value.nan_to_num()) for name, value in found.items()}
