"""The peak memory of ``fit`` on a CPU beside what ``hyperfront train --dry-run`` says, for three sizes.

    python benchmarks/memory.py --json docs/memory.json        # two minutes on one core

Each number is of a process of its own, with Python and PyTorch. The script fails if they differ by more than a tenth.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

import torch
from torch import nn

import hyperfront as hf
from hyperfront.apps.cli.dry_run import peak

SIZES = (50, 200, 800)
"""Units of the hypernetwork's last hidden layer: weights in proportion."""
BAR = 0.1


def target() -> nn.Module:
    return nn.Sequential(nn.Linear(64, 256), nn.ReLU(), nn.Linear(256, 256), nn.ReLU(), nn.Linear(256, 2))


def problem() -> hf.problem.Problem:
    generator = torch.Generator().manual_seed(0)
    x, y = (torch.randn(512, width, generator=generator) for width in (64, 2))
    losses = {
        "first": lambda output, batch: (output[:, 0] - batch[1][:, 0]).square().mean(),
        "second": lambda output, batch: (output[:, 1] - batch[1][:, 1]).square().mean(),
    }
    made = hf.supervised((x, y), (x[:64], y[:64]), losses=losses, reference=(50, 50))
    return dataclasses.replace(made, make_target=target)


def fit(hidden: int) -> None:
    """Train for three epochs, and print the peak in MiB."""
    own = problem()
    with tempfile.TemporaryDirectory() as folder:
        model = hf.wrap(target(), own.objectives, hidden=hidden)
        hf.fit(model, own, epochs=3, batch_size=256, out=Path(folder) / "run", callbacks=[])
    weights = sum(tensor.nbytes for tensor in model.state_dict().values())
    print(json.dumps({"peak": peak(model.device)[0] / 2**20, "weights": weights / 2**20}))


def run(*words: str) -> str:
    here = Path(__file__)
    path = os.pathsep.join([str(here.parent), *filter(None, [os.environ.get("PYTHONPATH")])])
    environment = os.environ | {"OMP_NUM_THREADS": "1", "PYTHONPATH": path}
    done = subprocess.run([sys.executable, "-W", "ignore", *words], env=environment, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(done.stderr)
    return done.stdout


def measure(hidden: int) -> dict[str, float]:
    words = ["train", "memory:problem", "--hidden", str(hidden), "--epochs", "3", "--batch-size", "256", "--dry-run"]
    said = re.search(r"memory +about (\d+) MiB", run("-m", "hyperfront", *words))
    assert said is not None
    return {"hidden": hidden, "said": float(said[1]), **json.loads(run(__file__, "--fit", str(hidden)))}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="one size")
    parser.add_argument("--fit", type=int, metavar="HIDDEN", help="the part that runs in a process of its own")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all numbers there")
    options = parser.parse_args()
    if options.fit:
        return fit(options.fit)
    rows = []
    print("| weights, MiB | peak of `fit`, MiB | said by `--dry-run` | difference |\n|---|---|---|---|")
    for hidden in SIZES[1:2] if options.quick else SIZES:
        row = measure(hidden)
        rows.append(row)
        off = row["said"] / row["peak"] - 1
        print(f"| {row['weights']:.0f} | {row['peak']:.0f} | {row['said']:.0f} | {off:+.1%} |", flush=True)
    if options.json:
        options.json.write_text(json.dumps({"torch": torch.__version__, "rows": rows}, indent=1) + "\n")
    if any(abs(row["said"] / row["peak"] - 1) > BAR for row in rows):
        raise SystemExit(f"the dry run is off by more than {BAR:.0%}")
    return None


if __name__ == "__main__":
    main()
