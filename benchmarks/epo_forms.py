"""Measure EPO's pieces of code against each other, which decides where each is used (hyperfront.solvers.epo.FEW).

python benchmarks/epo_forms.py          # seconds on one core
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from unittest import mock

import torch

from hyperfront import EPO
from hyperfront.solvers import epo


def problem(rays: int, m: int) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(0)
    grads = torch.randn(rays, m, 20, generator=generator, dtype=torch.float64)
    losses = torch.rand(rays, m, generator=generator, dtype=torch.float64) + 0.1
    shares = torch.rand(rays, m, generator=generator, dtype=torch.float64) + 0.05
    return losses, shares / shares.sum(-1, keepdim=True), grads @ grads.mT


def best(function: Callable[[], object], repeats: int) -> float:
    """Microseconds of the fastest call."""
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        function()
        times.append(time.perf_counter() - start)
    return 1e6 * min(times)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="only to see that it runs")
    repeats = 2 if parser.parse_args().quick else 200
    torch.set_num_threads(1)
    print("| m | rays | plain numbers, us | tensors, us |\n|---|---|---|---|")
    for m in (2, 3, 7):
        for rays in (1, 4, 8, 16, 64):
            given, found = problem(rays, m), []
            for few in (rays, 0):
                with mock.patch.object(epo, "FEW", few):
                    found.append(best(lambda: EPO()(*given), repeats))  # noqa: B023
            print(f"| {m} | {rays} | {found[0]:.0f} | {found[1]:.0f} |", flush=True)


if __name__ == "__main__":
    main()
