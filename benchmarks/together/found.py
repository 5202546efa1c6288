"""The numbers that were found so far, in a file, and the tables of them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

BARS = {"float64": 1e-10, "float32": 1e-5}
"""The largest relative differences: in float64 of all that is compared, in float32 of losses."""
FRONT = 1e-5
"""The largest difference of losses between the front of a run that was killed and one that was not."""
KEYS = ("losses", "weights", "Gram", "front")


class Found:
    """A JSON file of rows, written after every row, so that a second start continues."""

    def __init__(self, path: Path):
        self.path = path

    def read(self) -> dict[str, Any]:
        return json.loads(self.path.read_text()) if self.path.exists() else {}

    def rows(self, part: str) -> list[dict[str, Any]]:
        return self.read().get(part, [])

    def put(self, part: str, value: Any) -> None:
        temporary = self.path.with_suffix(".part")
        temporary.write_text(json.dumps(self.read() | {part: value}, indent=1) + "\n")
        temporary.replace(self.path)

    def add(self, part: str, row: dict[str, Any]) -> None:
        self.put(part, [*self.rows(part), row])


def missed(row: dict[str, Any]) -> bool:
    """Whether a case misses a bar."""
    exact = [value for key, value in row.items() if key.startswith("float64")]
    return not (max(exact) <= BARS["float64"] and row["float32 losses"] <= BARS["float32"])  # NaN misses it too


def lost(row: dict[str, Any]) -> bool:
    """Whether a killed job did not end and continue as it should."""
    told = row["others with the message"] == 3
    return not (told and row["resumed"] and row["difference"] <= FRONT and row["seconds until all ended"] < 60)


def equal_table(rows: list[dict[str, Any]]) -> list[str]:
    """For each target and number of processes, the largest differences among its cases."""
    heads = [f"float64: {KEYS[0]}", "weights", "Gram matrices", "front", "float32: losses"]
    lines = ["| target, processes | cases | " + " | ".join(heads) + " |", "|---" * (len(heads) + 2) + "|"]
    groups: dict[str, list[dict[str, Any]]] = {}
    for row in rows:
        groups.setdefault(f"{row['target']}, {row['processes']}", []).append(row)
    for name, group in groups.items():
        keys = [*(f"float64 {key}" for key in KEYS), "float32 losses"]
        cells = [max((row[key] for row in group if key in row), default=None) for key in keys]
        shown = ["" if cell is None else f"{cell:.0e}" for cell in cells]
        lines.append(f"| {name} | {len(group)} | {' | '.join(shown)} |")
    return lines


def killed_table(rows: list[dict[str, Any]]) -> list[str]:
    """For each number of processes that continued: how many did, and how far the fronts are apart."""
    lines = ["| continued with | kills | others told | continued | seconds until all ended | front |", "|---" * 6 + "|"]
    for size in sorted({row["continued with"] for row in rows}):
        group = [row for row in rows if row["continued with"] == size]
        told = sum(row["others with the message"] == 3 for row in group)
        resumed = sum(row["resumed"] for row in group)
        longest = max(row["seconds until all ended"] for row in group)
        front = max((row["difference"] for row in group if row["resumed"]), default=float("nan"))
        lines.append(f"| {size} | {len(group)} | {told} | {resumed} | at most {longest:.1f} | {front:.0e} |")
    return lines
