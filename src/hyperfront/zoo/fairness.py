"""Fairness (section 5.3 of the paper): accurate predictions with equal error rates for a protected group and the rest.

Three objectives after Bechavod & Ligett (2017, "Penalizing unfairness in binary classification"). With the score ``s``
of a row, its label ``y`` and its membership ``A`` of the protected group,

    bce         the binary cross entropy                                                                        (1)
    fp_penalty  | mean of s over {A = 1, y = 0} - mean of s over {A = 0, y = 0} |                               (2)
    fn_penalty  | mean of s over {A = 1, y = 1} - mean of s over {A = 0, y = 1} |                               (3)

``s`` is the predicted probability, so that no penalty is above 1, the reference point; or the logit, as in the original
(``gap="logit"``). The paper states neither ``s`` nor the groups. Here they are by sex (Adult, Default, ACS), and age
under 25 or from 60 (Bank). The scores of a front are the accuracy and the differences ``fpr_gap`` and ``fnr_gap`` of
the false positive and false negative rates of the two groups at the threshold 1/2.
ACS is not in the paper: 277,677 answers to a survey, large enough that rows which nothing has seen stand for a
population (:func:`unseen`).

A batch without rows in one of the cells of (2) or (3) has no such gap: it contributes 0, without gradient.
:func:`empty_cell_share` gives the share of such batches: for 256 rows 0.01 % (Adult), 0 % (Default) and 1.2 % (Bank).
Since hardly anything else makes a penalty exactly 0, such steps are counted as ``floored`` in the record of a run.

Numbers have mean 0 and variance 1 over the training rows; each category has an embedding of 4 numbers.
A network that predicts the same for everybody is perfectly fair, so look at the accuracy too.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from hyperfront.problem import Gap, Loss, Problem, Score, supervised
from hyperfront.problem.recipe import Recipe
from hyperfront.problem.registry import Entry
from hyperfront.zoo.arguments import check, check_rows
from hyperfront.zoo.data.acs import ACS
from hyperfront.zoo.data.people import ADULT, BANK, DEFAULT, DataSet, People
from hyperfront.zoo.people import presentation

DATA_SETS = {"adult": ADULT, "default": DEFAULT, "bank": BANK, "acs": ACS}
EMBEDDING = 4
"""Length of the embedding of a category."""
Compared = Literal["probability", "logit"]
SCORES: dict[str, Callable[[Tensor], Tensor]] = {"probability": torch.sigmoid, "logit": lambda logit: logit}


class TabularNet(nn.Module):
    """The paper's MLP with hidden layers of 40 and 20, on numbers ``[B, k]`` and embedded categories ``[B, c]``.

    One table holds the embeddings of all columns, so that a batch is one lookup: the categories are rows of it.
    """

    def __init__(self, numbers: int, categories: Sequence[int], embedding: int = EMBEDDING):
        super().__init__()
        self.embedding = nn.Embedding(sum(categories), embedding)
        nn.init.normal_(self.embedding.weight, std=0.1)  # with large embeddings the network memorizes rare categories
        width = numbers + len(categories) * embedding
        self.layers = nn.Sequential(
            nn.Linear(width, 40), nn.ReLU(), nn.Linear(40, 20), nn.ReLU(), nn.Linear(20, 1), nn.Flatten(-2)
        )

    def forward(self, numbers: Tensor, categories: Tensor) -> Tensor:
        """The logits ``[B]``."""
        # nn.Embedding's own gradient goes row by row on a CPU
        rows = self.embedding.weight.index_select(0, categories.flatten()).view(*categories.shape[:-1], -1)
        return self.layers(torch.cat([numbers, rows], dim=-1))


def make(
    name: str,
    gap: Compared = "probability",
    rows: int | None = None,
    draw: int = 0,
    data_dir: str | Path | None = None,
) -> Problem:
    """Make the fairness problem on one of :data:`DATA_SETS`.

    ``gap`` is the score that the penalties compare. ``rows`` keeps that many rows, for quick runs. ``draw`` is the
    number of the random split, for means over several splits.
    """
    check(gap in SCORES, "gap", gap, "one of " + ", ".join(SCORES))
    check_rows(rows, 10, 277_677)
    check(isinstance(draw, int) and not isinstance(draw, bool) and draw >= 0, "draw", draw, "an integer from 0")
    data = DATA_SETS[name]
    bounds = (0, 1) if gap == "probability" else None

    def decision(logit: Tensor) -> Tensor:
        return (logit > 0).to(logit)

    problem = supervised(
        partial(load, data, rows, data_dir, draw),
        losses={
            "bce": Loss(
                lambda logit, batch: F.binary_cross_entropy_with_logits(logit, batch[2].to(logit)),
                label="log loss",
                unit="nats",
            ),
            "fp_penalty": Loss(group_gap(SCORES[gap], label=False), label=f"gap in {gap}, label 0", bounds=bounds),
            "fn_penalty": Loss(group_gap(SCORES[gap], label=True), label=f"gap in {gap}, label 1", bounds=bounds),
        },
        reference=(1, 1, 1),
        scores={
            "accuracy": Score(
                lambda logit, batch: (decision(logit) == batch[2]).to(logit).mean(), maximize=True, bounds=(0, 1)
            ),
            "fpr_gap": Score(
                group_gap(decision, label=False), maximize=False, label="gap in false positive rates", bounds=(0, 1)
            ),
            "fnr_gap": Score(  # the gap of 1 - decision is the same
                group_gap(decision, label=True), maximize=False, label="gap in false negative rates", bounds=(0, 1)
            ),
        },
        inputs=lambda batch: batch[:2],
        identity={"problem": name, "arguments": {"gap": gap, "rows": rows, "draw": draw}},
        make_target=lambda: TabularNet(len(data.numbers), [len(kinds) for kinds in data.categories.values()]),
        example=lambda: (torch.zeros(1, len(data.numbers)), torch.zeros(1, len(data.categories), dtype=torch.long)),
        presentation=presentation(name, data, partial(split, rows=rows, draw=draw), data_dir),
    )
    return replace(problem, data_dir=data_dir)


def group_gap(score: Callable[[Tensor], Tensor], *, label: bool) -> Gap:
    """Make ``|mean score of protected rows with that label - mean score of other rows with it|``."""

    def members(batch: Any) -> Tensor:
        *_, labels, protected = batch
        return (labels == label) & torch.stack([protected, ~protected])

    return Gap(lambda logit, batch: score(logit), members)


def load(data: DataSet, rows: int | None, data_dir: str | Path | None, draw: int = 0) -> dict[str, tuple[Tensor, ...]]:
    """Load ``(numbers, categories, label, protected)`` of every split, numbers with mean 0 and variance 1."""
    people = data.load(data_dir)
    parts = split(len(people.label), rows, draw)
    return _tensors(data, people, parts)


def unseen(name: str, rows: int, data_dir: str | Path | None = None, draw: int = 0) -> tuple[Tensor, ...]:
    """Load the rows that ``make(name, rows=rows, draw=draw)`` leaves out, in the form of its splits.

    They stand for a population in experiments: ``unseen("acs", 77_677)`` are 200,000 rows.
    """
    data = DATA_SETS[name]
    people = data.load(data_dir)
    check_rows(rows, 10, len(people.label) - 1)
    parts = split(len(people.label), rows, draw)
    rest = np.setdiff1d(np.arange(len(people.label)), np.concatenate([*parts.values()]))
    return _tensors(data, people, {"train": parts["train"], "rest": rest})["rest"]


def _tensors(data: DataSet, people: People, parts: Mapping[str, np.ndarray]) -> dict[str, tuple[Tensor, ...]]:
    """Return the rows of each part; numbers are standardized by mean and variance of the part ``train``."""
    train = people.numbers[parts["train"]]
    spread = train.std(axis=0)
    numbers = (people.numbers - train.mean(axis=0)) / np.where(spread > 0, spread, 1)
    sizes = [len(kinds) for kinds in data.categories.values()]
    tables = np.cumsum([0, *sizes[:-1]])  # where each column's embeddings begin
    columns = (
        torch.from_numpy(numbers).float(),
        torch.from_numpy(people.categories + tables),
        torch.from_numpy(people.label),
        torch.from_numpy(people.protected),
    )
    return {name: tuple(column[torch.from_numpy(part)] for column in columns) for name, part in parts.items()}


def split(count: int, rows: int | None = None, draw: int = 0) -> dict[str, np.ndarray]:
    """Row numbers of each split: 20 % for test and 10 % of the rest for validation, both rounded up.

    Of 45,222, 30,000 and 41,188 rows, these are the paper's 32559/3618/9045, 21600/2400/6000 and 29655/3295/8238 (it
    says 70/10/20). The rows of the paper's splits are unknown. Ours are in the order of the first ``count`` raw numbers
    of the generator PCG64(draw), which NumPy promises not to change; ``rows`` keeps the first of that order.
    """
    order = np.argsort(np.random.PCG64(draw).random_raw(count), kind="stable")[:rows]
    test = math.ceil(len(order) / 5)
    val = math.ceil((len(order) - test) / 10)
    return dict(zip(("test", "val", "train"), np.split(order, [test, test + val])))


def empty_cell_share(label: Tensor, protected: Tensor, batch_size: int) -> float:
    """Share of the batches, drawn without replacement, that lack one of the four cells of label and group.

    With ``n_S`` rows in the cells ``S`` together, inclusion and exclusion over all sets of cells:

        P = sum over S of (-1)^(|S| + 1)  C(N - n_S, B) / C(N, B)
    """
    count = len(label)
    cells = [int(((label == y) & (protected == a)).sum()) for y in (False, True) for a in (False, True)]
    share = 0.0
    for size in range(1, 5):
        for chosen in itertools.combinations(cells, size):
            share -= (-1) ** size * math.comb(count - sum(chosen), batch_size) / math.comb(count, batch_size)
    return share


# Training the embeddings directly gives Adult a better hypervolume than generating them too (rare categories are not
# memorized for each ray), and the same hypervolume for the others.
LAYERS = {"hidden": 25, "generate": "layers.*"}
QUICK = Recipe(
    epochs=60,
    rays_per_step=4,
    batch_size=4096,
    warmup=50,
    alpha=1.0,
    align=True,
    evaluation_rays=153,
    validate_every=20,
    model=LAYERS,
)
SMOKE = replace(QUICK, epochs=2, batch_size=256, evaluation_rays=28, arguments={"rows": 2000})
PAPER = Recipe(
    epochs=35,
    schedule="constant",
    evaluation_rays=153,
    validate_every=5,
    model={"hidden": 25, "initialization": "plain"},
)
SMALL = replace(PAPER, schedule="cosine", warmup=50, alpha=1.0, align=True, validate_every=35, model={"hidden": 25})


def _full(rows: int, epochs: int) -> Recipe:
    """A recipe with all training rows in every step. In a small batch a gap is mostly noise: EPO takes it for larger
    than the true gap, which then ends too small. The last weights are kept, since earlier weights with a better
    hypervolume are further from their rays."""
    return replace(QUICK, epochs=epochs, rays_per_step=1, batch_size=rows, lr=5e-4, validate_every=epochs)


def _presets(best: Recipe) -> dict[str, Recipe]:
    return {"quick": QUICK, "smoke": SMOKE, "paper": PAPER, "best": best}


adult, default, bank, acs = (partial(make, name) for name in DATA_SETS)
_ARGUMENTS = "gap=probability|logit rows=N draw=N"
ENTRIES: dict[str, Entry] = {
    "adult": Entry(
        adult,
        "income of people in a census, fair by sex",
        _presets(_full(32_559, 1000)),
        _ARGUMENTS,
    ),
    "default": Entry(default, "credit card defaults, fair by sex", _presets(_full(21_600, 600)), _ARGUMENTS),
    "bank": Entry(bank, "success of calls by a bank, fair by age", _presets(SMALL), _ARGUMENTS),
    "acs": Entry(acs, "employment of people in a survey, fair by sex", _presets(QUICK), _ARGUMENTS),
}
