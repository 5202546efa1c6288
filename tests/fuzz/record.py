"""The counts of recorded campaigns, and the table that docs/reliability.md shows."""

from __future__ import annotations

import json
import subprocess
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from tests.fuzz.campaign import CRASH, DEFECTS, FOREIGN, HANG, WRONG, Counts

TITLES = {
    "api": "calls of the Python API without training",
    "files": "damaged and forged files",
    "routes": "requests in the process, to `serve` and `explore`",
    "sockets": "requests over sockets, to `serve`",
    "fit": "calls of `fit`",
}


def add(path: Path, family: str, numbers: range, counts: Counts, seconds: float, commit: str) -> None:
    """Write the counts of a family to the file, beside those of other families."""
    known = json.loads(path.read_text()) if path.exists() else {}
    record = {
        "commit": commit,
        "date": f"{datetime.now(UTC):%Y-%m-%d}",
        "seconds": round(seconds),
        "seeds": [numbers.start, numbers.stop - 1],
        "inputs": counts.inputs,
        **{kind: counts.kinds[kind] for kind in DEFECTS},
        "outcomes": dict(sorted(counts.kinds.items())),
        "parts": {name: sum(kinds.values()) for name, kinds in sorted(counts.parts.items())},
    }
    path.write_text(json.dumps({**known, family: record}, indent=1, sort_keys=True) + "\n")


def commit() -> str:
    """The commit of the working tree, marked where it has changes."""
    words = ["git", "describe", "--always", "--dirty", "--exclude=*"]
    return subprocess.run(words, capture_output=True, text=True, cwd=Path(__file__).parent).stdout.strip()


def table(path: Path) -> str:
    """The counts as a table in Markdown."""
    records: dict[str, Any] = json.loads(path.read_text())
    lines = [
        "| inputs | number | foreign exceptions | hangs | crashes | wrong results | minutes | commit |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for family, title in TITLES.items():
        if family in records:
            record = records[family]
            counts = " | ".join(f"{record[kind]:,}" for kind in (FOREIGN, HANG, CRASH, WRONG))
            lines.append(
                f"| {title} | {record['inputs']:,} | {counts} | {record['seconds'] / 60:.0f} | {record['commit']} |"
            )
    return "\n".join(lines)
