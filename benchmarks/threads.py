"""Milliseconds per training step with one CPU thread and with all: python benchmarks/threads.py.

Networks with two hidden layers of growing width and one with convolutions, two objectives, LS, two rays per step. The
column "work" is what ``hyperfront.front.threads`` counts: multiply-adds of the networks' forward pass in a step. The
smallest of several repetitions is printed; they take turns, so that other work on the machine disturbs both alike.
"""

from __future__ import annotations

import argparse
import time

import torch
from torch import Tensor, nn

import hyperfront as hf
from hyperfront.front import threads
from hyperfront.training.step import Step

SIZES = [(64, 256), (256, 256), (256, 1024), (1024, 1024), (1024, 4096)]
"""Width of the hidden layer, and rows of a batch."""
RAYS, FEATURES = 2, 64


def perceptron(width: int) -> nn.Module:
    """A network with two hidden layers."""
    layers = [nn.Linear(FEATURES, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU(), nn.Linear(width, 1)]
    return nn.Sequential(*layers)


def networks(quick: bool) -> list[tuple[str, nn.Module, Tensor]]:
    """Networks with inputs, smallest first."""
    found: list[tuple[str, nn.Module, Tensor]] = [
        (
            f"width {width}, {rows} rows",
            nn.Sequential(
                nn.Linear(FEATURES, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU(), nn.Linear(width, 1)
            ),
            torch.randn(rows, FEATURES),
        )
        for width, rows in (SIZES[:1] if quick else SIZES)
    ]
    if not quick:
        layers = [nn.Conv2d(1, 16, 5), nn.ReLU(), nn.Conv2d(16, 16, 5), nn.Flatten(), nn.Linear(16 * 20 * 20, 1)]
        found.append(("convolutions, 256 rows", nn.Sequential(*layers), torch.randn(256, 1, 28, 28)))
    return found


def main(quick: bool) -> None:
    all_threads, repetitions, steps = torch.get_num_threads(), 1 if quick else 5, 2 if quick else 5
    print(f"| network | work | 1 thread, ms | {all_threads} threads, ms |")
    print("|---|---|---|---|")
    for name, net, x in networks(quick):
        batch = (x, x.flatten(1)[:, :1])
        problem = hf.supervised(
            batch, losses={"a": lambda out, b: (out - b[1]).square().mean(), "b": lambda out, b: out.square().mean()}
        )
        model = hf.wrap(net, problem.objectives, hidden=25)
        step, rays = Step(model, problem, hf.LS()), hf.rays(RAYS, m=2).to(torch.float32)
        best = {1: float("inf"), all_threads: float("inf")}
        for _ in range(repetitions):
            for count in best:
                torch.set_num_threads(count)
                step(rays, batch)
                start = time.perf_counter()
                for _ in range(steps):
                    step(rays, batch)
                best[count] = min(best[count], (time.perf_counter() - start) / steps)
        work = threads.work(model, problem.inputs(batch))
        print(f"| {name} | {work / 1e6:,.0f} M | {best[1] * 1e3:.1f} | {best[all_threads] * 1e3:.1f} |", flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="smallest settings: shows in seconds that the script runs")
    main(parser.parse_args().quick)
