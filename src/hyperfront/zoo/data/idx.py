"""Read the IDX format of MNIST and Fashion-MNIST."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Literal

import numpy as np

from hyperfront.errors import DataError
from hyperfront.zoo.data import find, read

Array = np.ndarray


def labeled_images(
    name: str, part: Literal["train", "t10k"], data_dir: str | Path | None = None
) -> tuple[Array, Array]:
    """Load images ``[N, 28, 28]`` and labels ``[N]`` of ``mnist`` or ``fashion_mnist``, as uint8."""
    images = find(f"{name}/{part}-images-idx3-ubyte.gz", data_dir)
    labels = find(f"{name}/{part}-labels-idx1-ubyte.gz", data_dir)
    return parse(read(images)), parse(read(labels))


def parse(data: bytes) -> Array:
    """Read an array from an IDX file: two zeros, the type (8: uint8), the number of dimensions, each size in four bytes
    (most significant first), then the values row by row.

    >>> parse(bytes([0, 0, 8, 2, 0, 0, 0, 1, 0, 0, 0, 3, 7, 8, 9]))
    array([[7, 8, 9]], dtype=uint8)
    """
    if len(data) < 4 or data[:3] != b"\x00\x00\x08":
        raise DataError("no IDX file of bytes", got=data[:4].hex(" "), expected="00 00 08 and the number of dimensions")
    start = 4 + 4 * data[3]
    shape = tuple(int(size) for size in np.frombuffer(data[4:start], ">u4"))
    if len(data) - start != math.prod(shape):
        raise DataError("an IDX file is truncated", got=f"{len(data) - start:,} values", expected=f"{shape}")
    return np.frombuffer(data, np.uint8, offset=start).reshape(shape)
