"""Multi-MNIST and its relatives: two images in one, two tasks, a network too small for both (section 5.2 of the paper).

The losses are the cross entropies of the left and of the right image. :mod:`hyperfront.zoo.data.composites` describes
how the images are made and how the splits differ.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Literal, get_args

import torch
from torch import Tensor, nn

from hyperfront.kernels.layers import cross_entropy
from hyperfront.problem import Loss, Presentation, Problem, Score, Split, supervised
from hyperfront.problem.recipe import Recipe
from hyperfront.problem.registry import Entry
from hyperfront.problem.samples import Classified, image
from hyperfront.storage.batches import Batch
from hyperfront.zoo.arguments import check, check_rows
from hyperfront.zoo.data.composites import SOURCES, composites
from hyperfront.zoo.lenet import LeNet
from hyperfront.zoo.resnet import ResNet18
from hyperfront.zoo.shift import Shift

SplitName = Literal["clean", "paper"]
TargetName = Literal["lenet", "resnet18"]
TASKS = ("left", "right")
NAMES = {
    "mnist": [str(digit) for digit in range(10)],
    "fashion_mnist": [
        *("T-shirt", "trousers", "pullover", "dress", "coat"),
        *("sandal", "shirt", "sneaker", "bag", "ankle boot"),
    ],
}
"""The classes of the source images."""


def multi_mnist(
    name: str,
    split: SplitName = "clean",
    target: TargetName = "lenet",
    relu: bool = True,
    shift: int = 2,
    rows: int | None = None,
    data_dir: str | Path | None = None,
) -> Problem:
    """Classify the left and the right image of a composite.

    ``split`` is ``"clean"``, with validation on source images that training never uses, or ``"paper"``, on the same
    images.
    ``relu=False`` makes LeNet as in the paper's code. Training images are moved by up to ``shift`` pixels. ``rows``
    keeps that many composites for training, and the same share of the others.
    """
    check(split in get_args(SplitName), "split", split, "clean or paper")
    check(target in get_args(TargetName), "target", target, "lenet or resnet18")
    check(relu in (True, False), "relu", relu, "true or false")
    check(isinstance(shift, int) and 0 <= shift < 36, "shift", shift, "a number of pixels from 0 to 35")
    check_rows(rows, 1, 108_000)

    def load() -> dict[str, tuple[Tensor, ...]]:
        parts = composites(name, split, rows=rows, data_dir=data_dir)
        return {
            part: (torch.from_numpy(images)[:, None], *(torch.from_numpy(side).long() for side in labels))
            for part, (images, *labels) in parts.items()
        }

    make_target: Callable[[], nn.Module] = ResNet18 if target == "resnet18" else partial(LeNet, relu=bool(relu))
    return supervised(
        load,
        losses={
            task: Loss(partial(_cross_entropy, side), label=f"log loss, {task}", unit="nats")
            for side, task in enumerate(TASKS)
        },
        scores={
            f"{task} accuracy": Score(partial(_accuracy, side), maximize=True, label=f"accuracy, {task}", bounds=(0, 1))
            for side, task in enumerate(TASKS)
        },
        reference=(2, 2),
        inputs=lambda batch: batch[0] * (1 / 255),
        augment=Shift(shift) if shift else None,
        identity={
            "problem": name,
            "arguments": {
                "split": split,
                "target": target,
                "relu": bool(relu),
                "shift": shift,
                "rows": rows,
            },
        },
        make_target=make_target,
        example=lambda: torch.zeros(1, 1, 36, 36),
        presentation=Presentation(samples=partial(_samples, name)),
    )


def _samples(name: str, split: Split) -> Classified:
    return Classified(
        split,
        classes={task: NAMES[source] for task, source in zip(TASKS, SOURCES[name])},
        show=lambda batch, row: image(batch[0][row]),
        truth=lambda batch: batch[1:],
    )


def _cross_entropy(side: int, output: tuple[Tensor, Tensor], batch: Batch) -> Tensor:
    return cross_entropy(output[side], batch[1 + side])


def _accuracy(side: int, output: tuple[Tensor, Tensor], batch: Batch) -> Tensor:
    return (output[side].argmax(-1) == batch[1 + side]).float().mean()


# Features of the residual initialization are eight times as large, and so are Adam's steps of theta: at a learning rate
# of 1e-3 the ReLUs of LeNet die in the first epoch.
PLAIN = {"initialization": "plain"}
BEST = Recipe(
    epochs=500,
    rays_per_step=8,
    batch_size=1024,
    lr=2e-3,
    warmup=500,
    align=True,
    validate_every=20,
    model={"hidden": 128, **PLAIN},
)
# the paper's four hypernetworks for ResNet18, by parameters to train: matrices of 10,000 rows, and chunks
RESNET = {"1m": (1, 1150), "2m": (2, 577), "5m": (5, 230), "11m": (11, 105)}
PRESETS = {
    "quick": Recipe(epochs=6, batch_size=64, warmup=100, validate_every=6, model=PLAIN, arguments={"rows": 36_000}),
    "smoke": Recipe(epochs=2, batch_size=32, evaluation_rays=5, model=PLAIN, arguments={"rows": 2048}),
    "paper": Recipe(
        epochs=150,
        lr=1e-4,
        schedule="constant",
        validate_every=5,
        model=PLAIN,
        arguments={"relu": False, "shift": 0},
    ),
    "best": BEST,
} | {
    f"resnet18-{size}": replace(
        BEST,
        epochs=50,
        validate_every=10,
        rays_per_step=1,
        lr=4e-3 if matrices <= 2 else 1e-2,
        model={"hypernet": "chunked", "matrices": matrices, "chunks": chunks} | (PLAIN if matrices <= 2 else {}),
        arguments={"target": "resnet18"},
        separate={"lr": 1e-3},
    )
    for size, (matrices, chunks) in RESNET.items()
}

_ARGUMENTS = "split=clean|paper target=lenet|resnet18 relu=true shift=2 rows=108000"
ENTRIES = {
    name: Entry(partial(multi_mnist, name), what, PRESETS, _ARGUMENTS)
    for name, what in {
        "multi-mnist": "two digits in one image",
        "multi-fashion": "two items of clothing in one image",
        "multi-fashion-mnist": "an item of clothing (left) and a digit (right) in one image",
    }.items()
}
