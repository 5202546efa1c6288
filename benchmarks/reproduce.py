"""How long the smoke version of each item of the paper takes, alone and with what other items left; one thread."""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path

import torch

from hyperfront.errors import HyperfrontError
from reproduction import ITEMS, Workshop, reproduce

BAR = 10.0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--data-dir", type=Path, help="folder with the data (HYPERFRONT_DATA); items without them are left out"
    )
    options = parser.parse_args()
    torch.set_num_threads(1)
    print("| item | alone, s | after the others, s | bar |\n|---|---|---|---|")
    with tempfile.TemporaryDirectory() as folder:
        shared = Workshop(Path(folder) / "shared", runs=Path(folder) / "runs", data_dir=options.data_dir)
        for name in ITEMS:
            own = Workshop(Path(folder) / name, runs=Path(folder) / name / "runs", data_dir=options.data_dir)
            try:
                alone, together = _seconds(name, own), _seconds(name, shared)
            except HyperfrontError as error:
                print(f"| {name} | {str(error).splitlines()[0]} | | |")
                continue
            print(f"| {name} | {alone:.1f} | {together:.1f} | {BAR:g} |", flush=True)


def _seconds(name: str, workshop: Workshop) -> float:
    start = time.perf_counter()
    reproduce(name, ITEMS[name], workshop)
    return time.perf_counter() - start


if __name__ == "__main__":
    main()
