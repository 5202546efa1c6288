"""Trains PHN-EPO on Multi-(Fashion+MNIST) until the validation front is as good as the paper's, and prints how good.

A process of its own, so that whoever starts it can time all of it: Python, imports, data, compilation and training.

    python benchmarks/stopwatch/cold.py --data-dir FOLDER --epochs 20 --device cuda
"""

from __future__ import annotations

import argparse
import json
import os
from pathlib import Path
from typing import Any

import torch

import hyperfront as hf
from hyperfront.problem.registry import build
from hyperfront.training import Callback

HYPERVOLUME, UNIFORMITY = 2.78, 0.952


class Reached(Exception):
    """The front is good enough."""


class Stop(Callback):
    """Ends the run at the first validation that reaches both numbers; ``record`` is that of the last epoch."""

    record: dict[str, Any]

    def epoch_ended(self, record: dict[str, Any]) -> None:
        self.record = record
        found = record.get("validation")
        if found and found["hypervolume"] >= HYPERVOLUME and found["uniformity"] >= UNIFORMITY:
            raise Reached


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--data-dir", type=Path, default=os.environ.get("HYPERFRONT_DATA"))
    parser.add_argument("--epochs", type=int, default=20)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--rows", type=int)
    parser.add_argument("--quick", action="store_true", help="smallest settings: shows in seconds that the script runs")
    parser.add_argument("--tf32", action="store_true")
    options = parser.parse_args()
    if options.data_dir is None:
        print("this script needs the data: --data-dir FOLDER, or HYPERFRONT_DATA (see `hyperfront data list`)")
        return
    if options.quick:
        options.epochs, options.rows, options.device = 1, 512, "cpu"
    torch.set_float32_matmul_precision("high" if options.tf32 else "highest")
    torch.backends.cudnn.allow_tf32 = options.tf32
    torch.manual_seed(0)
    problem = build("multi-fashion-mnist", data_dir=options.data_dir, rows=options.rows)
    stop, reached = Stop(), False
    try:
        hf.fit(
            problem.model(initialization="plain"),
            problem,
            epochs=options.epochs,
            warmup=200,
            validate_every=4,
            device=options.device,
            callbacks=[stop],
        )
    except Reached:
        reached = True
    found = stop.record["validation"]
    result = {key: found[key] for key in ("hypervolume", "uniformity")}
    print(json.dumps({"reached": reached, "epoch": stop.record["epoch"], **result}), flush=True)


if __name__ == "__main__":
    main()
