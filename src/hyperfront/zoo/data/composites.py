"""Multi-MNIST: two images in one, made of MNIST or Fashion-MNIST, with the same bytes on every machine.

Of two images of 28 x 28 pixels, one is put near the top-left corner of 36 x 36 pixels, its own corner at ``(y, x)`` in
{0..4}^2, and the other near the bottom-right corner, at ``4 + (y, x)``; a pixel is the brighter of the two. Composite
``i`` of a part follows from six numbers,

    u_i1, ..., u_i6 = outputs 6 i, ..., 6 i + 5 of PCG64, seeded by [2021, part]; of 64 bits, the upper 32 are used

    left image, right image, y, x of the left, y, x of the right = floor(n u / 2^32),  n = sources, sources, 5, 5, 5, 5

in terms of the bit generator alone, which numpy promises never to change, unlike its distributions. The same numbers
serve all three data sets. Parts:

============== ====================================================================================================
``0`` (pool)   120,000 composites of the 60,000 training images: the ``paper`` split takes the first 108,000 for
               training and the other 12,000 for validation, so that both contain the same source images
``1``, ``2``   the ``clean`` split: 108,000 composites of nine tenths of the training images, and 12,000 of the others
``3``          20,000 composites of the 10,000 test images, the test set of both splits
``4``          the order of the training images for the ``clean`` split, by output ``j`` for image ``j``; training has
               the first 54,000
============== ====================================================================================================

:data:`SHA256` has the hash of every data set and split: composites, labels of the left and of the right image, as
bytes, of training, validation and test, one after another.
"""

from __future__ import annotations

import hashlib
import itertools
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Literal

import numpy as np

from hyperfront.zoo.data.idx import labeled_images

Array = np.ndarray
Part = tuple[Array, Array, Array]
"""Composites ``[N, 36, 36]`` and the labels of the left and the right image ``[N]``, as uint8."""

SEED = 2021
SIZE, SHIFT = 36, 4
POOL, TRAIN, VAL, TEST, ORDER = range(5)
SOURCES = {  # left and right; papers do not state the order for the third
    "multi-mnist": ("mnist", "mnist"),
    "multi-fashion": ("fashion_mnist", "fashion_mnist"),
    "multi-fashion-mnist": ("fashion_mnist", "mnist"),
}
SHA256 = {
    ("multi-mnist", "paper"): "37a281cac7a453ddaf0fe63108d3bea8ca97c95a91bcab89451b192a28091bc2",
    ("multi-mnist", "clean"): "83088b8fd8c077632c238d1bdc8879c7bba164e85693a58ebfc8576f580feb32",
    ("multi-fashion", "paper"): "6c28dadcc996033b203a893a02396287965e8a21d735446dd22b394c8a59d0fc",
    ("multi-fashion", "clean"): "bc33631a19be796faf83f585ecfb93b36df69a69f3f7d0720db84fc4d0acca33",
    ("multi-fashion-mnist", "paper"): "9a629bbcb7218ba52bdacf64bde6580f7e75912f2c50685a153b3a47a584ba6f",
    ("multi-fashion-mnist", "clean"): "48e80cabeda1b3131e6353d4a4f4d2c3019e24c238520d0d7ca9dfa71a8acb09",
}


def composites(
    name: str,
    split: Literal["paper", "clean"],
    *,
    rows: int | None = None,
    data_dir: str | Path | None = None,
) -> dict[str, Part]:
    """The parts ``train``, ``val`` and ``test`` of a data set: 108,000, 12,000 and 20,000 composites.

    ``rows`` keeps the first ``rows`` composites of training, and the same share of the other parts.
    """
    train, test = (_sources(name, part, data_dir) for part in ("train", "t10k"))
    if split == "paper":
        pool, every = _draws(POOL, 120_000), np.arange(60_000)
        chosen = {"train": (pool[:108_000], every), "val": (pool[108_000:], every)}
    else:
        order = np.argsort(_outputs(ORDER, 60_000), kind="stable")
        chosen = {"train": (_draws(TRAIN, 108_000), order[:54_000]), "val": (_draws(VAL, 12_000), order[54_000:])}
    chosen["test"] = (_draws(TEST, 20_000), np.arange(10_000))
    rows = 108_000 if rows is None else rows
    return {
        part: compose(draws[: math.ceil(rows * len(draws) / 108_000)], test if part == "test" else train, images)
        for part, (draws, images) in chosen.items()
    }


def _sources(name: str, part: Literal["train", "t10k"], data_dir: str | Path | None) -> list[tuple[Array, Array]]:
    """Load images and labels for the left and for the right."""
    held = {source: labeled_images(source, part, data_dir) for source in sorted(set(SOURCES[name]))}
    return [held[source] for source in SOURCES[name]]


def compose(draws: Array, sources: list[tuple[Array, Array]], images: Array) -> Part:
    """Make composites of the given ``images`` of the left and the right source, by ``draws [N, 6]``."""
    canvas = np.zeros((len(draws), SIZE, SIZE), np.uint8)
    labels = []
    for side, (pixels, classes) in enumerate(sources):
        chosen = images[_below(len(images), draws[:, side])]
        corners = _below(SHIFT + 1, draws[:, 2 + 2 * side : 4 + 2 * side])
        for y, x in itertools.product(range(SHIFT + 1), repeat=2):
            here = np.flatnonzero((corners == (y, x)).all(1))
            top, left = y + SHIFT * side, x + SHIFT * side
            window = canvas[:, top : top + 28, left : left + 28]
            window[here] = np.maximum(window[here], pixels[chosen[here]])
        labels.append(classes[chosen])
    return canvas, labels[0], labels[1]


def digest(parts: Mapping[str, Part]) -> str:
    """The hash of a data set and split, to compare with :data:`SHA256`."""
    found = hashlib.sha256()
    for part in ("train", "val", "test"):
        for array in parts[part]:
            found.update(array.data)
    return found.hexdigest()


def _outputs(part: int, count: int) -> Array:
    """The upper halves of the first ``count`` outputs of the bit generator of a part, as uint64."""
    return np.random.PCG64([SEED, part]).random_raw(count) >> np.uint64(32)


def _draws(part: int, count: int) -> Array:
    return _outputs(part, 6 * count).reshape(count, 6)


def _below(n: int, draws: Array) -> Array:
    """Integers in {0..n-1}: ``floor(n u / 2^32)``."""
    return (draws * np.uint64(n) >> np.uint64(32)).astype(np.int64)
