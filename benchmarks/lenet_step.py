"""What a step costs: LeNet (31,910 weights), batch 256, one ray, on the CPU.

Prints milliseconds per step for the plain module, PHN-LS (twice, to show the noise), and PHN-EPO in weight space and in
hypernetwork space, with the ratio to PHN-LS. They take turns, ten steps at a time, so that they share whatever else the
machine does; the first two steps of each turn warm the caches and do not count.

    python benchmarks/lenet_step.py --threads 1 --turns 5
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn import functional as F

import hyperfront as hf
from hyperfront.problems.lenet import LeNet


def plain_step(batch: tuple[Tensor, ...]) -> Callable[[], None]:
    module = LeNet()
    optimizer = torch.optim.Adam(module.parameters(), lr=1e-4)

    def step() -> None:
        optimizer.zero_grad()
        left, right = module(batch[0])
        (F.cross_entropy(left, batch[1]) + F.cross_entropy(right, batch[2])).backward()
        optimizer.step()

    return step


def front_step(solver: hf.LS | hf.EPO, batch: tuple[Tensor, ...]) -> Callable[[], None]:
    model = hf.wrap(LeNet(), ["left", "right"])
    problem = hf.supervised(
        batch,
        losses={
            "left": lambda output, batch: F.cross_entropy(output[0], batch[1]),
            "right": lambda output, batch: F.cross_entropy(output[1], batch[2]),
        },
    )
    backward = hf.Step(model, problem, solver)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-4)
    preferences, generator = hf.Dirichlet(0.2), torch.Generator().manual_seed(0)

    def step() -> None:
        optimizer.zero_grad()
        backward(preferences.sample(1, 2, generator).float(), batch)
        optimizer.step()

    return step


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--batch", type=int, default=256)
    parser.add_argument("--turns", type=int, default=5)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    torch.manual_seed(0)
    labels = torch.randint(10, (2, options.batch))
    batch = (torch.rand(options.batch, 1, 36, 36), labels[0], labels[1])
    steps = {
        "plain module": plain_step(batch),
        "PHN-LS": front_step(hf.LS(), batch),
        "PHN-LS, again": front_step(hf.LS(), batch),
        "PHN-EPO": front_step(hf.EPO(), batch),
        "PHN-EPO, hypernetwork space": front_step(hf.EPO(space="hypernetwork"), batch),
    }
    times: dict[str, list[float]] = {name: [] for name in steps}
    for _ in range(options.turns):
        for name, step in steps.items():
            for index in range(12):
                start = time.perf_counter()
                step()
                if index >= 2:
                    times[name].append(1e3 * (time.perf_counter() - start))
    base = statistics.median(times["PHN-LS"])
    print(f"LeNet, batch {options.batch}, {options.threads} thread(s), torch {torch.__version__}")
    print(f"{'step':<30}{'median ms':>10}{'quartiles':>18}{'of PHN-LS':>11}")
    for name, values in times.items():
        low, middle, high = statistics.quantiles(values, n=4)
        print(f"{name:<30}{middle:>10.1f}{f'{low:.1f} .. {high:.1f}':>18}{middle / base:>10.2f}x")


if __name__ == "__main__":
    main()
