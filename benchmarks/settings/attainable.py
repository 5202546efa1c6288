"""How much of the attainable uniformity the preset `best` has on the fairness sets, counted in two ways, and whose
points are the nearest to its rays: from the files in reproduction/results/.

    python benchmarks/settings/attainable.py
"""

from __future__ import annotations

import argparse
from collections import Counter
from pathlib import Path
from statistics import fmean

import torch

from hyperfront import indicators
from hyperfront.comparison.result import Result, load_folder

RESULTS = Path(__file__).parents[2] / "reproduction" / "results"


def show(problem: str, results: list[Result]) -> None:
    """Counted from the least possible uniformity, as `hyperfront results` does, and plainly divided, with at most 1 at
    each ray; means over seeds."""
    owners = [f"{result.method} at {result.settings['lr']:g}" for result in results for _ in result.losses()]
    every = torch.cat([result.losses() for result in results])
    good = indicators.nondominated(every).nonzero()[:, 0]
    counted, divided, nearest = [], [], Counter[str]()
    for result in (each for each in results if each.preset == "best" and each.method == "phn-epo"):
        rays, losses = result.inverse_rays(), result.losses()
        most, which = indicators.uniformity(every[good], rays[:, None]).max(-1)
        counted.append(indicators.controllability(losses, rays, every[good]).mean().item())
        divided.append((indicators.uniformity(losses, rays) / most).clamp(max=1).mean().item())
        nearest.update(owners[good[index]] for index in which.tolist())
    whose = ", ".join(f"{name} ({count})" for name, count in nearest.most_common(3))
    print(f"{problem:<8} of attainable {fmean(counted):.3f}, divided {fmean(divided):.3f}; nearest to rays: {whose}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="smallest settings: shows in seconds that the script runs")
    options = parser.parse_args()
    found = load_folder(RESULTS, without="smoke")
    for problem in ("adult",) if options.quick else ("adult", "default", "bank"):
        own = [result for result in found if result.problem == problem]
        show(problem, [each for each in own if each.settings["arguments"].get("gap", "probability") == "probability"])


if __name__ == "__main__":
    main()
