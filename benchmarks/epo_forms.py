"""Measure EPO's pieces of code on a CPU against each other, which decides where each is used.

python benchmarks/epo_forms.py          # seconds on one core

Plain numbers solve one ray after the other; the closed form of two objectives and the batched program solve all rays at
once, in tensors (``hyperfront.solvers.epo``). All of them have the same weights. The table has microseconds of the
fastest of 200 calls.
"""

from __future__ import annotations

import argparse
import math
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


def by_program(logs: torch.Tensor, *given: object) -> torch.Tensor:
    """Solve two objectives by the batched program, as three are."""
    with torch.inference_mode():
        return epo._many(logs, *given, torch.zeros(len(logs), dtype=torch.uint8))[0]


FORMS = {  # rays that are solved in plain numbers at most, and the code for two objectives
    "plain numbers": (math.inf, epo.two_objectives),
    "closed form": (0, epo.two_objectives),
    "batched program": (0, by_program),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="only to see that it runs")
    repeats = 2 if parser.parse_args().quick else 200
    torch.set_num_threads(1)
    print("| m | rays |", " | ".join(FORMS), "|\n|" + "---|" * (2 + len(FORMS)))
    for m in (2, 3, 7):
        for rays in (1, 4, 8, 16, 64):
            given, found = problem(rays, m), []
            for name, (few, two) in FORMS.items():
                with mock.patch.multiple(epo, FEW=few, two_objectives=two):
                    applies = name != "closed form" or m == 2
                    found.append(f"{best(lambda: EPO()(*given), repeats):.0f}" if applies else "-")  # noqa: B023
            print(f"| {m} | {rays} |", " | ".join(found), "|", flush=True)


if __name__ == "__main__":
    main()
