"""How close trained fronts come to the true ones: every built-in problem with a known front, through the command line.

Prints, for each problem and over the seeds, the largest distance to the true front and the least uniformity over the
evaluation rays (25 for two objectives, the 45 positive Das-Dennis rays for DTLZ2), hypervolume and time. The worst seed
counts.

    python benchmarks/known_fronts.py --seeds 3
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import hyperfront as hf
from hyperfront import indicators
from hyperfront.problem.registry import build

PROBLEMS = ["fonseca", "vlmop2", "zdt1", "zdt2", "zdt3", "dtlz2", "problem2"]
# problem: (largest distance, least uniformity) to be reached
BARS = {
    "fonseca": (1e-3, 0.999),
    "zdt2": (5e-3, 0.999),
    "problem2": (5e-3, 0.999),
    "vlmop2": (5e-3, 0.999),
    "dtlz2": (5e-3, 0.99),
}


def train(problem: str, seed: int, folder: Path, *words: str) -> tuple[hf.Front, float]:
    out = folder / f"{problem}-{seed}"
    code = "from hyperfront.apps.cli import main; main()"
    start = time.perf_counter()
    command = [sys.executable, "-c", code, "train", problem, "--seed", str(seed), "--out", str(out), *words]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, env=os.environ)
    return hf.Front.load(out / "front.json"), time.perf_counter() - start


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--problems", nargs="+", default=PROBLEMS)
    parser.add_argument("--quick", action="store_true", help="smallest settings: shows in seconds that the script runs")
    options = parser.parse_args()
    words = ["--epochs", "1"] if options.quick else []
    if options.quick:
        options.seeds, options.problems = 1, ["vlmop2"]
    print(f"{options.seeds} seeds, the worst counts; uniformity with natural logarithm")
    header = f"{'problem':<10}{'rays':>5}{'distance':>10}{'bar':>9}{'uniformity':>12}{'bar':>7}{'hypervolume':>13}"
    print(header + f"{'true':>9}{'seconds':>9}")
    with tempfile.TemporaryDirectory() as folder:
        for name in options.problems:
            problem = build(name)
            results = [train(name, seed, Path(folder), *words) for seed in range(options.seeds)]
            distance = max(float(problem.truth.distance(front.losses).max()) for front, _ in results)
            least = min(float(indicators.uniformity(front.losses, front.rays).min()) for front, _ in results)
            volume = min(front.hypervolume() for front, _ in results)
            seconds = max(seconds for _, seconds in results)
            bars = [f"{bar:g}" for bar in BARS.get(name, ())] or ["-", "-"]
            row = f"{name:<10}{len(results[0][0]):>5}{distance:>10.1e}{bars[0]:>9}{least:>12.5f}{bars[1]:>7}"
            print(row + f"{volume:>13.5f}{problem.truth.hypervolume:>9.5f}{seconds:>9.1f}", flush=True)


if __name__ == "__main__":
    main()
