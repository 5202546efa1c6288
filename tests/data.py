"""Where the real data are, for the tests that need them."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

_FOLDERS = [os.environ.get("HYPERFRONT_DATA"), Path(__file__).parents[2] / "shared" / "data"]
DATA: Path | None = next((Path(folder) for folder in _FOLDERS if folder and Path(folder).is_dir()), None)
needs_data = pytest.mark.skipif(
    DATA is None, reason="needs the data: set HYPERFRONT_DATA, or put them in ../shared/data"
)
