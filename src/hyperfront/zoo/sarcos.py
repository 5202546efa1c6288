"""SARCOS (section 5.5 of the paper): the torques of a robot arm's 7 joints, one objective each.

The objectives are the mean square errors of the torques, each over the .9 quantile of that joint's torques in training
(as in the paper's code: a quantile of the signed torques, so that of the second joint is negative; the square removes
the sign). The reference point is 1 for all, so the hypervolume is at most 1.

Three splits of the 21,571 available rows of the training file, by row number, which is time (11 ms a row):

``"paper"``
    the rows before 4,448 for validation, the rest for training, the test file for testing: 19,206 / 2,365 / 4,449 rows
    (40,036 / 4,448 / 4,449 in the paper). It leaks: every row of the test file is a row of the training file. It
    serves to compare with published numbers, not to measure predictions of new motion.
``"blocks"``
    blocks of 500 rows (5.5 s), in turn: of every ten, the fourth is for validation and the ninth for testing. Training
    rows within 100 rows (1.1 s) of those are left out: 15,564 / 2,162 / 2,173 rows. The test file is not used.
``"final"``
    the same with the second block for validation and the seventh for testing. Settings that were chosen on ``blocks``
    are measured here, on rows that did not choose them: 15,452 / 2,180 / 2,226 rows.

With the complete training file they have 40,036 / 4,448 / 4,449 and 32,000 / 4,500 / 4,484 rows.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor, nn

from hyperfront.errors import unknown_name
from hyperfront.problem import Problem, Score, SetLoss, supervised
from hyperfront.problem.recipe import Recipe
from hyperfront.problem.registry import Entry
from hyperfront.zoo.arguments import check_rows
from hyperfront.zoo.data import sarcos as recording
from hyperfront.zoo.data.sarcos import Motion

JOINTS = [f"joint{number}" for number in range(1, 8)]
VALIDATION_ROWS = 4_448
BLOCK, GAP = 500, 100
TURN = ("train",) * 3 + ("val",) + ("train",) * 4 + ("test",) + ("train",)
FINAL_TURN = ("train",) + ("val",) + ("train",) * 4 + ("test",) + ("train",) * 3


def sarcos(
    split: Literal["paper", "blocks", "final"] = "blocks",
    inputs: Literal["standardized", "raw"] = "standardized",
    rows: int | None = None,
    data_dir: str | Path | None = None,
) -> Problem:
    """Make the problem on one of three splits; inputs are raw (as in the paper's code), or have mean 0 and variance 1.

    ``rows`` keeps at most that many rows of each split, evenly spread over time, for quick runs.
    """
    for what, choice, known in (("split", split, SPLITS), ("inputs", inputs, ("standardized", "raw"))):
        if choice not in known:
            raise unknown_name(f"{what} of sarcos", str(choice), known)
    check_rows(rows, 1, 44_484)
    return supervised(
        partial(load, split, inputs, rows, data_dir),
        losses={name: partial(_error, joint) for joint, name in enumerate(JOINTS)},
        reference=(1,) * 7,
        scores={
            "mse": Score(
                lambda output, batch: (output - batch[1]).square().mean(), maximize=False, label="mean squared error"
            ),
            "r2": Score(SetLoss(_moments, _explained), maximize=True, label="R²"),
        },
        identity={"problem": "sarcos", "arguments": {"split": split, "inputs": inputs, "rows": rows}},
        make_target=network,
        example=lambda: torch.zeros(1, 21),
    )


def network() -> nn.Sequential:
    """The paper's MLP.

    >>> sum(p.numel() for p in network().parameters())
    139015
    """
    return nn.Sequential(
        nn.Linear(21, 256), nn.ReLU(), nn.Linear(256, 256), nn.ReLU(), nn.Linear(256, 256), nn.ReLU(), nn.Linear(256, 7)
    )


def _error(joint: int, output: Tensor, batch: Any) -> Tensor:
    return (output[:, joint] - batch[1][:, joint]).square().mean()


def _moments(output: Tensor, batch: Any) -> Tensor:
    """Statistics ``[4, 7]``: number of rows, sums of torques, of their squares, and of squared errors."""
    torques = batch[1]
    return torch.stack([torch.ones_like(torques), torques, torques.square(), (output - torques).square()]).sum(1)


def _explained(moments: Tensor) -> Tensor:
    """Share of the variance that is explained, ``1 - SSE / SST``: the mean over the joints."""
    count, total, squares, errors = moments
    return (1 - errors / (squares - total.square() / count)).mean()


def load(split: str, inputs: str, rows: int | None, data_dir: str | Path | None) -> dict[str, tuple[Tensor, Tensor]]:
    """Load ``(inputs, torques)`` of every split, scaled by statistics of the training rows."""
    parts = SPLITS[split](*recording.load(data_dir))
    train = parts["train"]
    quantile = np.quantile(train.torques, 0.9, axis=0)
    shift, spread = (train.inputs.mean(0), train.inputs.std(0)) if inputs == "standardized" else (0.0, 1.0)

    def tensors(part: Motion) -> tuple[Tensor, Tensor]:
        every = slice(None, None, 1 if rows is None else -(-len(part.index) // rows))
        scaled = ((part.inputs - shift) / spread)[every], (part.torques / quantile)[every]
        return torch.from_numpy(scaled[0]).float(), torch.from_numpy(scaled[1]).float()

    return {name: tensors(part) for name, part in parts.items()}


def paper_split(motion: Motion, test: Motion) -> dict[str, Motion]:
    first = motion.index < VALIDATION_ROWS
    return {"train": _where(motion, ~first), "val": _where(motion, first), "test": test}


def block_split(motion: Motion, test: Motion, turn: Sequence[str] = TURN) -> dict[str, Motion]:
    def kind(index: np.ndarray) -> np.ndarray:
        return np.array(turn)[index // BLOCK % len(turn)]

    near = motion.index - GAP, motion.index, motion.index + GAP  # a block is longer than the gap
    parts = {name: kind(motion.index) == name for name in ("val", "test")}
    parts["train"] = np.all([kind(index) == "train" for index in near], axis=0)
    return {name: _where(motion, parts[name]) for name in ("train", "val", "test")}


def _where(motion: Motion, mask: np.ndarray) -> Motion:
    return Motion(*(column[mask] for column in motion))


SPLITS: dict[str, Callable[[Motion, Motion], dict[str, Motion]]] = {
    "paper": paper_split,
    "blocks": block_split,
    "final": partial(block_split, turn=FINAL_TURN),
}
QUICK = Recipe(
    epochs=50,
    rays_per_step=4,
    batch_size=512,
    warmup=30,
    alpha=1.0,  # evaluation rays lie inside, where Dirichlet(.2) hardly ever draws
    evaluation_rays=100,
    validate_every=25,
    model={"hidden": 25},
)
PAPER = Recipe(
    epochs=1000,
    batch_size=256,  # the paper's code has 512: half of its rows give the same number of steps
    schedule="constant",
    evaluation_rays=100,
    validate_every=10,
    model={"hidden": 100, "initialization": "plain"},  # as in the paper's code; its text says 25
    arguments={"split": "paper", "inputs": "raw"},
)
ENTRIES: dict[str, Entry] = {
    "sarcos": Entry(
        sarcos,
        "torques of a robot arm, 7 objectives",
        {
            "quick": QUICK,
            "smoke": replace(
                QUICK,
                epochs=2,
                batch_size=128,
                evaluation_rays=7,
                validate_every=2,
                model={"hidden": 4},
                arguments={"rows": 512},
            ),
            "paper": PAPER,
            "best": replace(QUICK, epochs=600, warmup=300, align=True, validate_every=20, model={"hidden": 100}),
        },
        "split=blocks|paper|final inputs=standardized|raw rows=N",
    )
}
