"""The counts of the last long run, and the table of them in ``docs/reliability.md``."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import torch

import hyperfront
from tests.faults.kinds import FITTED

DOCS = Path(__file__).parents[2] / "docs"
COUNTS, PAGE = DOCS / "faults.json", DOCS / "reliability.md"
ROWS = {
    "deaths": "deaths at a change of a file; resumed to the same bytes",
    "signals": "SIGKILL, SIGTERM, SIGHUP and SIGINT at random times; resumed to the same bytes",
    "damage": "flipped bits and cuts in checkpoints; noticed",
    "recovery": "damage to the newest checkpoint; resumed to the same bytes, one checkpoint lost at most",
    "swaps": "missing, damaged and swapped files; resumed to the same bytes, or refused without a change",
    "disk": "disk full from one change on; an error says so, and the run resumes to the same bytes",
    "small_disks": "file systems too small for the run, one page larger each time; the same",
    "clocks": "runs whose clocks jump; the same bytes",
    "locks": "runs on file systems without locks; the same bytes, and a warning",
}
KINDS = {row: [*FITTED] for row in ("damage", "recovery", "clocks", "locks")} | {
    "swaps": ["hf.fit"],
    "small_disks": [*FITTED, "hyperfront train", "hyperfront train data.csv"],
}
"""The kinds of runs of a row, where these are not all."""
MARKS = ("<!-- counts of tests/faults -->", "<!-- end of the counts -->")


def add(row: str, kind: str, tried: int, failed: int, seconds: float) -> None:
    """Put the counts of one row and kind of run into the file and the table."""
    counts = load()
    counts.setdefault(row, {})[kind] = {
        "tried": tried,
        "failed": failed,
        "seconds": round(seconds),
        "hyperfront": hyperfront.__version__,
        "torch": torch.__version__,
    }
    COUNTS.write_text(json.dumps(counts, indent=2, sort_keys=True) + "\n")
    PAGE.write_text(with_table(PAGE.read_text(), counts))


def load() -> dict[str, Any]:
    return json.loads(COUNTS.read_text()) if COUNTS.exists() else {}


def with_table(page: str, counts: dict[str, Any]) -> str:
    """The page with the table of these counts between the marks."""
    lines = ["| fault, and what must follow | kinds of runs | tried | failed |", "|---|---|---|---|"]
    for row, kinds in ((row, counts[row]) for row in ROWS if row in counts):
        tried, failed = (sum(count[key] for count in kinds.values()) for key in ("tried", "failed"))
        lines.append(f"| {ROWS[row]} | {len(kinds)} | {tried:,} | {failed:,} |")
    return between(page, MARKS, lines)


def between(page: str, marks: tuple[str, str], lines: list[str]) -> str:
    """The page with these lines between the marks."""
    start, end = map(re.escape, marks)
    text = "\n".join([marks[0], *lines, marks[1]])
    return re.sub(f"{start}.*{end}", lambda _: text, page, flags=re.DOTALL)
