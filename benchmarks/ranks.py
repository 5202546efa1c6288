"""Compare several processes that train one model with one process, and kill some of them.

python benchmarks/ranks.py --json docs/ranks.json                  # continues with what the file lacks
python benchmarks/ranks.py --only equal --json docs/ranks.json     # or killed, time, predicted
python benchmarks/ranks.py --only tables --json docs/ranks.json    # the tables of docs/ranks.md
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from pathlib import Path
from typing import Any

from together.cases import CASES, Case
from together.found import Found, equal_table, killed_table, lost, missed
from together.job import together
from together.killed import kill_several
from together.member import compare
from together.predicted import table
from together.timed import measure

PARTS = ("predicted", "time", "killed", "equal")


def time_steps(folder: Path) -> dict[str, Any]:
    """Where the time of a step goes, with one process and with two."""
    for size in (1, 2):
        together(size, folder / f"time {size}", measure, folder / f"time-{size}")
    return {str(size): json.loads((folder / f"time-{size}").read_text()) for size in (1, 2)}


def measure_parts(wanted: tuple[str, ...], found: Found, folder: Path, *, quick: bool) -> None:
    """Measure the parts that are wanted, or a little of each."""
    if "predicted" in wanted:
        print("\n".join(table()))
    if "time" in wanted and not quick:
        found.put("time", time_steps(folder))
    if "killed" in wanted:
        kill_several(1 if quick else 20, 24 if quick else 48, folder / "killed", found)
    if "equal" in wanted:
        some = [CASES.index(Case("mlp", "EPO", 3)), CASES.index(Case("cnn", "EPO", 2))]
        numbers, sizes, steps = (some, [2], 10) if quick else (range(len(CASES)), [2, 4], 100)
        compare(numbers, steps, sizes, folder, found)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="only to see that it runs")
    parser.add_argument("--only", choices=(*PARTS, "tables"), help="one part; the file keeps the others")
    parser.add_argument("--json", type=Path, help="a file for all numbers")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as place:
        found = Found(arguments.json or Path(place) / "found.json")
        measure_parts((arguments.only,) if arguments.only else PARTS, found, Path(place), quick=arguments.quick)
        everything = found.read()
    if rows := everything.get("equal"):
        print("\n".join(equal_table(rows)))
    if rows := everything.get("kills"):
        print("\n".join(killed_table(rows)))
    if any(map(missed, everything.get("equal", []))) or any(map(lost, everything.get("kills", []))):
        sys.exit("a bar is missed")


if __name__ == "__main__":
    main()
