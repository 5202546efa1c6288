"""Compare several processes that train one model with one process, and kill some of them.

python benchmarks/ranks.py --json docs/ranks.json          # an hour on two cores
python benchmarks/ranks.py --only equal                    # or killed, or time
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file

from together.cases import CASES, Case
from together.killed import kill_several
from together.member import trained
from together.predicted import table

HERE = Path(__file__).parent
BARS = {"float64": 1e-10, "float32": 1e-5}
"""The largest relative differences: in float64 of all that is compared, in float32 of losses."""


def run(module: str, words: Sequence[object], processes: int, *, options: Sequence[str] = ()) -> None:
    """Run a module in one process, or in several under torchrun."""
    roots = [str(HERE), *filter(None, [os.environ.get("PYTHONPATH")])]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(roots), "OMP_NUM_THREADS": "1"}
    launch = ["-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={processes}", *options]
    command = [sys.executable, *(launch if processes > 1 else []), "-m", module, *map(str, words)]
    subprocess.run(command, env=environment, check=True)


def compare(numbers: Sequence[int], steps: int, sizes: Sequence[int], folder: Path) -> list[dict[str, Any]]:
    """The largest differences between several processes and one, for the cases of these numbers."""
    torch.set_num_threads(1)
    alone, rows = trained([CASES[number] for number in numbers], steps), []
    for size in sizes:
        run("together.member", [folder / str(size), steps, *numbers], size)
        found = load_file(folder / str(size))
        for case in (CASES[number] for number in numbers):
            row: dict[str, Any] = {**case._asdict(), "processes": size, "steps": steps}
            for dtype in BARS:
                for key in ("losses", "weights", "Gram", "front"):
                    name = " ".join([*map(str, case), dtype, key])
                    if name in alone:
                        row[f"{dtype} {key}"] = difference(found[name], alone[name])
            rows.append(row)
    return rows


def difference(found: torch.Tensor, expected: torch.Tensor) -> float:
    """The largest difference, relative to the largest number."""
    return float((found - expected).abs().max() / expected.abs().max())


def missed(row: dict[str, Any]) -> bool:
    """Whether a case misses a bar."""
    close = all(value <= BARS["float64"] for key, value in row.items() if key.startswith("float64"))
    return not close or row["float32 losses"] > BARS["float32"]


def show(rows: list[dict[str, Any]]) -> None:
    keys = ["float64 losses", "float64 weights", "float64 Gram", "float32 losses"]
    print("| target, solver, m, processes | " + " | ".join(keys) + " |\n" + "|---" * (len(keys) + 1) + "|")
    for row in rows:
        cells = [f"{row[key]:.0e}" if key in row else "" for key in keys]
        print(f"| {row['target']}, {row['solver']}, {row['m']}, {row['processes']} | " + " | ".join(cells) + " |")


def time_steps(folder: Path) -> dict[str, Any]:
    """Where the time of a step goes, with one process and with two."""
    found = {}
    for size in (1, 2):
        run("together.timed", [folder / f"time-{size}"], size)
        found[str(size)] = json.loads((folder / f"time-{size}").read_text())
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="only to see that it runs")
    parser.add_argument(
        "--only", choices=("equal", "killed", "time", "predicted"), help="one part; the file keeps the others"
    )
    parser.add_argument("--json", type=Path, help="a file for all numbers")
    arguments = parser.parse_args()
    quick, wanted = arguments.quick, (arguments.only,) if arguments.only else ("predicted", "time", "killed", "equal")
    found: dict[str, Any] = {}
    if arguments.json and arguments.json.exists():
        found = json.loads(arguments.json.read_text())
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        if "predicted" in wanted:
            print("\n".join(table()))
        if "time" in wanted and not quick:
            found["time"] = time_steps(folder)
            print(json.dumps(found["time"], indent=1))
        if "killed" in wanted and not quick:
            os.environ["PYTHONPATH"] = os.pathsep.join([str(HERE), *filter(None, [os.environ.get("PYTHONPATH")])])
            found |= kill_several(20, 120, folder / "killed")
        if "equal" in wanted:
            numbers = [CASES.index(Case("mlp", "EPO", 3)), CASES.index(Case("cnn", "EPO", 2))]
            sizes, steps = ([2], 10) if quick else ([2, 4], 100)
            found["equal"] = []
            for chosen in [numbers] if quick else [range(start, start + 12) for start in (0, 12, 24)]:
                found["equal"] += compare(chosen, steps, sizes, folder)
                if arguments.json:
                    arguments.json.write_text(json.dumps(found, indent=1) + "\n")
            show(found["equal"])
    if arguments.json:
        arguments.json.write_text(json.dumps(found, indent=1) + "\n")
    if any(map(missed, found.get("equal", []))):
        sys.exit("a bar is missed")


if __name__ == "__main__":
    main()
