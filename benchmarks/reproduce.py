"""Measure how long the smoke version of each item of the paper takes, with the results of the items before it."""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path

import torch

from hyperfront.errors import HyperfrontError
from reproduction import ITEMS, Store, reproduce


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data-dir", type=Path, help="folder with the data (HYPERFRONT_DATA)")
    options = parser.parse_args()
    torch.set_num_threads(1)
    print("| item | seconds |\n|---|---|")
    with tempfile.TemporaryDirectory() as folder:
        store = Store(Path(folder) / "results", runs=Path(folder) / "runs", data_dir=options.data_dir)
        for name in ITEMS:
            start = time.perf_counter()
            try:
                reproduce(name, store)
            except HyperfrontError as error:  # its data are missing
                print(f"| {name} | {str(error).splitlines()[0]} |")
            else:
                print(f"| {name} | {time.perf_counter() - start:.1f} |", flush=True)


if __name__ == "__main__":
    main()
