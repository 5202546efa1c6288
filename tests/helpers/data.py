"""Where the tests find the data sets, which are not part of the repository."""

from __future__ import annotations

import os
from pathlib import Path

_NAMED = os.environ.get("HYPERFRONT_DATA")
_PLACES = [*([Path(_NAMED)] if _NAMED else []), Path(__file__).parents[3] / "shared" / "data"]
DATA: Path | None = next((place for place in _PLACES if place.is_dir()), None)
REASON = "needs the data sets: name their folder with HYPERFRONT_DATA (see `hyperfront data list`)"
