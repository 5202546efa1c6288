"""SARCOS: 21 positions, velocities and accelerations of a robot arm, and the torques of its 7 joints.

Distributed with Rasmussen & Williams, *Gaussian Processes for Machine Learning*, as two MATLAB files. Of the training
file ``sarcos_inv.mat`` (44,484 rows) 21,571 rows were available for the results in this repository:
``sarcos_inv_subset.npz``, each with its row number in the original. If the whole file lies beside the test file, it is
used instead.
"""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import NamedTuple

import numpy as np

from hyperfront.errors import DataError
from hyperfront.zoo.data import find

WHOLE_BLOB = "687b7aaa5faf5a9c67fc6655fd59fd8b4539ad55"
"""The hash of the original training file in git: the SHA-1 of its length and contents."""


class Motion(NamedTuple):
    """Rows of a recording, float64."""

    index: np.ndarray
    """``[N]``: row numbers in the original training file, ascending, which count time."""
    inputs: np.ndarray
    """``[N, 21]``: 7 positions, 7 velocities, 7 accelerations."""
    torques: np.ndarray
    """``[N, 7]``."""


def load(data_dir: str | Path | None = None) -> tuple[Motion, Motion]:
    """Load the available training rows, and the test file. Its row ``k`` is row ``10 k`` of the training file."""
    test = _motion(read_matrix(find("sarcos/sarcos_inv_test.mat", data_dir)), step=10)
    part = find("sarcos/sarcos_inv_subset.npz", data_dir)
    if part.suffix == ".mat":  # the whole file
        _check_blob(part, WHOLE_BLOB)
        return _motion(read_matrix(part), step=1), test
    with np.load(part) as arrays:
        return Motion(arrays["index"].astype(np.int64), arrays["X"], arrays["Y"]), test


def _motion(table: np.ndarray, step: int) -> Motion:
    return Motion(step * np.arange(len(table)), table[:, :21], table[:, 21:])


def read_matrix(path: Path) -> np.ndarray:
    """Read the only matrix of a MATLAB 5 file, of doubles and not compressed.

    After a header of 128 bytes come the matrix's tag and flags (24 bytes), its shape as two integers with a tag, its
    name, and its numbers, column by column, at the end.
    """
    raw = path.read_bytes()
    kind, rows, columns = (int.from_bytes(raw[at : at + 4], "little") for at in (128, 160, 164))
    size = 8 * rows * columns
    if not raw.startswith(b"MATLAB 5.0") or kind != 14 or not 0 < size < len(raw) - 168:
        raise DataError(
            "a data file cannot be read", got=path, expected="a MATLAB 5 file with one matrix that is not compressed"
        )
    return np.frombuffer(raw[-size:], dtype="<f8").reshape(columns, rows).T


def _check_blob(path: Path, expected: str) -> None:
    raw = path.read_bytes()
    found = hashlib.sha1(b"blob %d\0" % len(raw) + raw).hexdigest()
    if found != expected:
        raise DataError(
            "a data file has other contents than its name says",
            got=f"{path}: git blob {found}",
            expected=expected,
            fix="remove it to use the rows of sarcos_inv_subset.npz",
        )
