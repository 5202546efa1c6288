"""``python -m tests.fuzz FAMILY``: run inputs, print findings, and write counts to a file.

python -m tests.fuzz api --inputs 100000 [--first 0] [--only WORD] [--out docs/fuzz.json]
python -m tests.fuzz api --long --out docs/fuzz.json
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

from tests.fuzz import record
from tests.fuzz.api import Calls
from tests.fuzz.campaign import Counts, Family, campaign
from tests.fuzz.files import Files
from tests.fuzz.routes import Routes, Sockets
from tests.fuzz.training import Training

FAMILIES: dict[str, type] = {"api": Calls, "files": Files, "routes": Routes, "sockets": Sockets, "fit": Training}
LONG = {"api": 1_000_000, "files": 400_000, "routes": 600_000, "sockets": 5000, "fit": 2000}
"""The inputs of a recorded campaign."""


def main(arguments: list[str] | None = None) -> int:
    """Return 1 if there was a defect."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz")
    parser.add_argument("family", choices=FAMILIES)
    parser.add_argument("--inputs", type=int, default=2000)
    parser.add_argument("--long", action="store_true", help="as many inputs as a recorded campaign has")
    parser.add_argument("--first", type=int, default=0, help="the number of the first input, which is its seed")
    parser.add_argument("--only", default="", help="parts whose names have this word")
    parser.add_argument("--out", type=Path, help="a JSON file, to which the counts of the family are added")
    asked = parser.parse_args(arguments)
    family: Family = FAMILIES[asked.family](asked.only)
    numbers = range(asked.first, asked.first + (LONG[asked.family] if asked.long else asked.inputs))
    began, last = time.perf_counter(), [0.0]

    def tell(counts: Counts) -> None:
        now = time.perf_counter() - began
        if now - last[0] > 20:
            last[0] = now
            found = [f"{entry['part']} (input {entry['number']})" for entry in counts.findings.values()]
            print(f"{counts.inputs:,} inputs, {now:.0f} s, defects: {found}", file=sys.stderr, flush=True)

    commit = record.commit()
    counts = campaign(family, numbers, tell=tell)
    seconds = time.perf_counter() - began
    for entry in sorted(counts.findings.values(), key=lambda entry: -entry["times"]):
        print(f"{entry['times']:6} x  input {entry['number']}  {entry['part']}  {entry['text']}")
    print(f"{counts.inputs:,} inputs in {seconds:.0f} s: {dict(counts.kinds)}")
    if asked.out:
        record.add(asked.out, family.name, numbers, counts, seconds, commit)
    return bool(counts.defects)


if __name__ == "__main__":
    sys.exit(main())
