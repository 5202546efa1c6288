"""NYUv2 (section 5.4 of the paper): class and depth of every pixel of an indoor image.

The paper states neither losses nor resolution. Here, with the 13 logits ``u`` and the depth ``z`` of ENet,

    segmentation = - 1/|L| sum_{p in L} log softmax(u_p)[class_p]        L: pixels with a label (83 % of them)
    depth        = 1/P sum_p |z_p - depth_p|                             in metres, all pixels

over the whole split in evaluation, and over the batch in training. One ENet, encoder and decoder shared, has 14 output
channels: the logits, and depth in deviations from its mean, so that its initial depth is realistic.

Splits. ``paper`` takes images at random, 1,014 / 145 / 290; since neighbours in the numbering show the same room,
training sees most rooms of its test images, whose losses are therefore too good. ``official`` keeps rooms apart: 795
training and 654 test images. Of the 795, in their order, every tenth block of 15 is for validation (75 images), so that
only rooms at the ends of a block can be in both parts.
"""

from __future__ import annotations

from pathlib import Path

import torch
from torch import Tensor
from torch.nn import functional as F

from hyperfront.kernels.layers import channels_last
from hyperfront.problem import Loss, Presentation, Problem, Score, SetLoss, supervised
from hyperfront.problem.recipe import Recipe
from hyperfront.problem.registry import Entry
from hyperfront.zoo.arguments import check, check_rows
from hyperfront.zoo.data import find
from hyperfront.zoo.data.nyuv2 import CLASSES, METERS_PER_LEVEL, Pack, pack_name
from hyperfront.zoo.enet import ENet
from hyperfront.zoo.scenes import Scenes
from hyperfront.zoo.views import RandomViews

DEPTH_MEAN, DEPTH_DEVIATION = 2.84, 1.42
"""Mean and deviation of depth in the official training images, in meters."""
SIZES = {"288x384": ("288x384", 1), "144x192": ("144x192", 1), "72x96": ("144x192", 2)}
"""The pack for images of a size, and the factor by which they are shrunk."""
SPLITS = ("paper", "official")
PARTS = ("train", "val", "test")

Batch = tuple[Tensor, Tensor, Tensor]
"""RGB ``[B, 3, H, W]``, depth in levels ``[B, H, W]``, classes ``[B, H, W]``, -1 without a class."""


def nyuv2(
    split: str = "paper",
    size: str = "288x384",
    augment: bool = True,
    rows: int | None = None,
    data_dir: str | Path | None = None,
) -> Problem:
    """Make the problem of segmentation and depth of NYUv2 images. ``rows`` keeps about that many of the 1,449."""
    for name, value, choices in (("split", split, SPLITS), ("size", size, tuple(SIZES)), ("augment", augment, (0, 1))):
        check(value in choices, name, value, "one of " + ", ".join(str(choice) for choice in choices))
    check_rows(rows, 10, 1449)

    def load() -> dict[str, Batch]:
        name, shrink = SIZES[size]
        pack = Pack(find(pack_name(name), data_dir))
        share = 1.0 if rows is None else rows / len(pack)
        parts = divide(pack.is_train, split).items()
        return {part: shrunk(pack.images(thinned(chosen, share)), shrink) for part, chosen in parts}

    return supervised(
        load,
        losses={
            "segmentation": Loss(SetLoss(cross_entropy_sums, mean), label="log loss of segmentation", unit="nats"),
            "depth": Loss(depth_error, label="absolute error of depth", unit="m"),
        },
        reference=(3, 3),
        scores={
            "mIoU": Score(SetLoss(confusion, mean_iou), maximize=True, bounds=(0, 1)),
            "pixel accuracy": Score(SetLoss(hits, mean), maximize=True, bounds=(0, 1)),
            "relative depth error": Score(relative_depth_error, maximize=False),
        },
        inputs=inputs,
        augment=RandomViews() if augment else None,
        identity={
            "problem": "nyuv2",
            "arguments": {"split": split, "size": size, "augment": bool(augment), "rows": rows},
        },
        make_target=lambda: ENet(len(CLASSES) + 1),
        example=lambda: torch.zeros(1, 3, *(int(side) for side in size.split("x"))),
        presentation=Presentation(samples=lambda split: Scenes(split, depth_of)),
    )


# ---- data ------------------------------------------------------------------------------------------------------------


def divide(is_train: Tensor, split: str) -> dict[str, Tensor]:
    """Divide the images into parts, by row."""
    if split == "paper":
        order = torch.randperm(len(is_train), generator=torch.Generator().manual_seed(0))
        train, val = round(0.7 * len(order)), round(0.1 * len(order))
        return dict(zip(PARTS, order.tensor_split([train, train + val])))
    train, test = is_train.nonzero()[:, 0], (~is_train).nonzero()[:, 0]
    held_out = torch.arange(len(train)) // 15 % 10 == 9
    return {"train": train[~held_out], "val": train[held_out], "test": test}


def thinned(rows: Tensor, share: float) -> Tensor:
    """Keep about that share of the rows, evenly spaced."""
    return rows[torch.linspace(0, len(rows) - 1, max(1, round(share * len(rows)))).long()]


def shrunk(batch: Batch, factor: int) -> Batch:
    """Average blocks of color, and keep one pixel of depth and class of each block."""
    rgb, depth, classes = batch
    if factor == 1:
        return batch
    color = torch.cat([F.avg_pool2d(image.float()[None], factor) for image in rgb]).round().to(rgb.dtype)
    return color, depth[:, ::factor, ::factor].contiguous(), classes[:, ::factor, ::factor].contiguous()


def inputs(batch: Batch) -> Tensor:
    """Scale RGB to -1 to 1."""
    return channels_last(batch[0].float() / 127.5 - 1)


def meters(levels: Tensor) -> Tensor:
    return (levels.float() + 0.5) * METERS_PER_LEVEL


def depth_of(output: Tensor) -> Tensor:
    return DEPTH_MEAN + DEPTH_DEVIATION * output[:, -1]


# ---- losses and scores: masked sums, since shapes must not depend on the number of labelled pixels -------------------


def cross_entropy_sums(output: Tensor, batch: Batch) -> Tensor:
    """Sum of the cross entropies of labelled pixels, and their number."""
    logits, classes = output[:, :-1], batch[2]
    each = torch.arange(logits.shape[1], device=logits.device)[:, None, None]
    own = torch.where(classes[:, None] == each, logits, 0).sum(1)
    labeled = classes >= 0
    return torch.stack([((logits.logsumexp(1) - own) * labeled).sum(), labeled.sum()])


def mean(sums: Tensor) -> Tensor:
    return sums[0] / sums[1].clamp_min(1)


def depth_error(output: Tensor, batch: Batch) -> Tensor:
    return (depth_of(output) - meters(batch[1])).abs().mean()


def relative_depth_error(output: Tensor, batch: Batch) -> Tensor:
    true = meters(batch[1])
    return ((depth_of(output) - true).abs() / true).mean()


def hits(output: Tensor, batch: Batch) -> Tensor:
    """Numbers of correct labelled pixels, and of all labelled pixels."""
    classes = batch[2]
    return torch.stack([(output[:, :-1].argmax(1) == classes).sum(), (classes >= 0).sum()])


def confusion(output: Tensor, batch: Batch) -> Tensor:
    """Count labelled pixels ``[true class, predicted class]``."""
    count = output.shape[1] - 1
    cell = (batch[2].long() * count + output[:, :-1].argmax(1)).flatten(1)
    cell = torch.where(cell < 0, count * count, cell)  # unlabelled: a cell that is dropped
    zeros = torch.zeros(len(cell), count * count + 1, dtype=torch.long, device=cell.device)
    counts = zeros.scatter_add(1, cell, torch.ones_like(cell)).sum(0)
    return counts[:-1].unflatten(0, (count, count))


def mean_iou(counts: Tensor) -> Tensor:
    """Intersection over union, averaged over the classes that occur or were predicted."""
    both = counts.diagonal()
    union = counts.sum(0) + counts.sum(1) - both
    return (both / union.clamp_min(1)).sum() / (union > 0).sum().clamp_min(1)


# An MLP of width 9 generates ENet with 3.65 million weights and learned faster than chunked ones of up to as many.
SMALL = {"hidden": 9}
ENTRIES = {
    "nyuv2": Entry(
        nyuv2,
        "segmentation and depth of indoor images, ENet",
        {
            "quick": Recipe(
                epochs=7,
                batch_size=8,
                warmup=20,
                validate_every=7,
                model=SMALL,
                arguments={"size": "72x96", "rows": 600, "augment": False},  # pays in long runs only
            ),
            "smoke": Recipe(
                epochs=1,
                batch_size=4,
                evaluation_rays=3,
                model=SMALL,
                arguments={"size": "72x96", "rows": 20},
            ),
            # the learning rate is one of the paper's three; the paper states no batch size
            "paper": Recipe(
                epochs=150,
                batch_size=16,
                lr=1e-3,
                schedule="constant",
                validate_every=30,
                model={"hidden": 100, "initialization": "plain"},
                arguments={"augment": False},
            ),
            "best": Recipe(epochs=150, batch_size=16, warmup=200, align=True, validate_every=30, model=SMALL),
        },
        "split=paper|official size=288x384|144x192|72x96 augment=1|0 rows=1449",
    )
}
