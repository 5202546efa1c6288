"""The entry "table": your own table (:mod:`hyperfront.tabular`), made again from the record in a run folder."""

from __future__ import annotations

from dataclasses import replace

from hyperfront.problem.registry import Entry
from hyperfront.tabular import recipe_for, recorded

QUICK = recipe_for(3000)
ENTRIES: dict[str, Entry] = {
    "table": Entry(
        recorded,
        "your own table: hyperfront train data.csv --target y",
        {"quick": QUICK, "smoke": replace(QUICK, epochs=2, batch_size=64, warmup=0, evaluation_rays=10)},
    ),
}
