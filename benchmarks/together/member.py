"""Train the cases in one process, and in several, and compare what they find."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file

from together.cases import CASES, fitted
from together.found import Found
from together.job import together

DTYPES = {"float64": torch.float64, "float32": torch.float32}


def trained(number: int, steps: int) -> dict[str, torch.Tensor]:
    """Train a case in both precisions; return what each found, by name."""
    found = {}
    for name, dtype in DTYPES.items():
        _, values = fitted(CASES[number], steps=steps, dtype=dtype)
        found |= {f"{name} {key}": value for key, value in values.items()}
    return found


def compare(numbers: Sequence[int], steps: int, sizes: Sequence[int], folder: Path, found: Found) -> None:
    """Add the largest differences between several processes and one, for the cases of these numbers."""
    torch.set_num_threads(1)
    known = [{**row} for row in found.rows("equal")]
    done = {(row["target"], row["solver"], row["m"], row["processes"]) for row in known if row["steps"] == steps}
    if len(done) < len(known):  # of another number of steps
        found.put("equal", [row for row in known if row["steps"] == steps])
    for size in sizes:
        missing = [number for number in numbers if (*CASES[number], size) not in done]
        for number in missing:
            if not (file := folder / f"alone-{number}").exists():
                save_file(trained(number, steps), file)
        if missing:
            together(size, folder / f"{size} processes", compare_cases, missing, steps, folder, found.path)


def compare_cases(numbers: Sequence[int], steps: int, folder: Path, path: Path) -> None:
    """What each process of a job does: train every case, and add the differences from one process."""
    for number in numbers:
        values = trained(number, steps)
        if os.environ["RANK"] != "0":
            continue
        alone = load_file(folder / f"alone-{number}")
        row: dict[str, Any] = {**CASES[number]._asdict(), "processes": int(os.environ["WORLD_SIZE"]), "steps": steps}
        Found(path).add("equal", row | {key: difference(values[key], alone[key]) for key in alone})


def difference(found: torch.Tensor, expected: torch.Tensor) -> float:
    """The largest difference, relative to the largest number."""
    return float((found - expected).abs().max() / expected.abs().max())
