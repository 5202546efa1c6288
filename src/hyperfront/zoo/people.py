"""The presentation of the four tables of people: rows as in the file, decisions at 1/2, and rates of two groups."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch

from hyperfront.errors import DataError
from hyperfront.problem import Decision, Presentation, Split
from hyperfront.problem.samples import Grouping, TableSamples
from hyperfront.storage.batches import Batch
from hyperfront.zoo.data.people import DataSet, People


class Words(NamedTuple):
    """Words for the prediction, the grouping, its two groups, and the title of a row."""

    predicted: str
    grouping: str
    groups: tuple[str, str]
    title: str


WORDS = {
    "adult": Words("income above 50K", "sex", ("women", "men"), "{age}, {education}, {occupation}"),
    "default": Words(
        "default next month", "sex", ("women", "men"), "age {AGE}, limit {LIMIT_BAL}, payment delay {PAY_0}"
    ),
    "acs": Words("employed", "sex", ("women", "men"), "age {AGEP}, schooling {SCHL}, relationship {RELP}"),
    "bank": Words("says yes to the call", "age", ("under 25 or from 60", "25 to 59"), "{age}, {job}, {marital}"),
}
DECISION = Decision(torch.sigmoid, ("no", "yes"))


def presentation(
    name: str, data: DataSet, numbers_of_rows: Callable[[int], dict[str, np.ndarray]], data_dir: str | Path | None
) -> Presentation:
    """Make the presentation of a table; ``numbers_of_rows`` maps the length of the file to the rows of each split."""
    words = WORDS[name]

    @cache
    def people() -> People:
        return data.load(data_dir)

    def samples(split: Split) -> TableSamples:
        chosen = numbers_of_rows(len(people().label))[split.name]

        def readable(batch: Batch, row: int) -> dict[str, str]:
            """A row with the numbers and names of the file, before standardization."""
            if bool(batch[2][row]) != people().label[chosen[row]]:
                raise DataError("the rows of the split do not match the data file", got=f"row {row}")
            numbers, codes = people().numbers[chosen[row]], people().categories[chosen[row]]
            both = {column: f"{value:g}" for column, value in zip(data.numbers, numbers)}
            both |= {column: kinds[code] for (column, kinds), code in zip(data.categories.items(), codes)}
            return {column: both[column] for column in data.features}

        return TableSamples(
            split,
            readable=readable,
            labels=lambda batch: batch[2],
            decision=DECISION,
            groupings=[Grouping(words.grouping, words.groups, lambda batch: (~batch[3]).long())],
            predicted=words.predicted,
            title=lambda fields: words.title.format(**fields),
        )

    return Presentation(
        samples=samples,
        decision=DECISION,
        groups=(f"by {words.grouping}: {words.groups[0]}; {words.groups[1]}",),
    )
