"""What a training step costs on a CPU: LeNet on images, and a small network on a table.

1. LeNet (31,910 weights), batch 256, one ray: milliseconds per step for the plain module in standard ``torch.nn``
   calls, PHN-LS (twice, to show the noise), and PHN-EPO in weight space and in hypernetwork space, with the ratio to
   the plain module. They take turns, six steps at a time, so that they share whatever else the machine does; the first
   step of each turn warms the caches and does not count.
2. A stand-in for the fairness problems (32,559 rows, three objectives, an MLP [40, 20] on numbers and embedded
   categories, hidden 25): microseconds per step of ``fit``, all included but validation, and seconds for 35 epochs.

With one thread, times are those that the process had the processor, so that others on the machine do not count (they
still slow it down, by taking turns in its caches).

    python benchmarks/cpu_step.py --threads 1 --turns 5
"""

from __future__ import annotations

import argparse
import itertools
import statistics
import time
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

import hyperfront as hf
from hyperfront.kernels.conv_relu_pool import conv_relu_pool

Clock = Callable[[], float]


class PlainLeNet(nn.Module):
    """The paper's target for Multi-MNIST: 9x9 and 5x5 convolutions, two heads."""

    def __init__(self):
        super().__init__()
        self.conv1, self.conv2 = nn.Conv2d(1, 10, 9), nn.Conv2d(10, 20, 5)
        self.fc, self.left, self.right = nn.Linear(500, 50), nn.Linear(50, 10), nn.Linear(50, 10)

    def features(self, x: Tensor) -> Tensor:
        x = F.max_pool2d(F.relu(self.conv1(x)), 2)
        return F.max_pool2d(F.relu(self.conv2(x)), 2)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        x = F.relu(self.fc(self.features(x).flatten(1)))
        return self.left(x), self.right(x)


class LeNet(PlainLeNet):
    """The same function, with convolution, ReLU and pooling in one."""

    def features(self, x: Tensor) -> Tensor:
        x = conv_relu_pool(x, self.conv1.weight, self.conv1.bias)
        return conv_relu_pool(x, self.conv2.weight, self.conv2.bias)


def plain_step(batch: tuple[Tensor, ...]) -> Callable[[], None]:
    module = PlainLeNet()
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
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-4, fused=True)  # as in fit
    rays = itertools.cycle(hf.Dirichlet(0.2).sample(1000, 2, torch.Generator().manual_seed(0)).float().split(1))

    def step() -> None:
        optimizer.zero_grad()
        backward(next(rays), batch)
        optimizer.step()

    return step


def take_turns(steps: dict[str, Callable[[], None]], turns: int, clock: Clock) -> dict[str, list[float]]:
    """Milliseconds of every step that counts."""
    times: dict[str, list[float]] = {name: [] for name in steps}
    for _ in range(turns):
        for name, step in steps.items():
            for index in range(6):
                start = clock()
                step()
                if index:
                    times[name].append(1e3 * (clock() - start))
    return times


def lenet(size: int, turns: int, clock: Clock) -> None:
    labels = torch.randint(10, (2, size))
    batch = (torch.rand(size, 1, 36, 36), labels[0], labels[1])
    steps = {
        "plain module": plain_step(batch),
        "PHN-LS": front_step(hf.LS(), batch),
        "PHN-LS, again": front_step(hf.LS(), batch),
        "PHN-EPO": front_step(hf.EPO(), batch),
        "PHN-EPO, hypernetwork space": front_step(hf.EPO(space="hypernetwork"), batch),
    }
    times = take_turns(steps, turns, clock)
    base = times["plain module"]
    print(f"LeNet, batch {size}")
    print(f"{'step':<30}{'median ms':>10}{'quartiles':>18}{'of plain':>10}{'least ms':>10}{'of plain':>10}")
    for name, values in times.items():
        low, middle, high = statistics.quantiles(values, n=4)
        ratio, least = middle / statistics.median(base), min(values) / min(base)
        spread = f"{low:.1f} .. {high:.1f}"
        print(f"{name:<30}{middle:>10.1f}{spread:>18}{ratio:>9.2f}x{min(values):>10.1f}{least:>9.2f}x")


class TabularNet(nn.Module):
    """Logits ``[B]`` from numbers ``[B, k]`` and categories ``[B, c]``, whose embeddings are rows of one table."""

    def __init__(self, numbers: int, categories: Sequence[int]):
        super().__init__()
        self.embedding = nn.Parameter(0.1 * torch.randn(sum(categories), 4))
        width = numbers + 4 * len(categories)
        self.layers = nn.Sequential(nn.Linear(width, 40), nn.ReLU(), nn.Linear(40, 20), nn.ReLU(), nn.Linear(20, 1))

    def forward(self, numbers: Tensor, categories: Tensor) -> Tensor:
        # index_select and not an embedding, whose gradient takes six times as long
        words = self.embedding.index_select(0, categories.flatten()).view(len(numbers), -1)
        return self.layers(torch.cat([numbers, words], dim=1)).squeeze(1)


CATEGORIES = (8, 16, 7, 14, 6, 5, 2, 41)  # how many there are of each kind, as in Adult


def table(rows: int) -> tuple[Tensor, ...]:
    """Numbers, categories, a label, and a group that has it more often."""
    numbers = torch.randn(rows, 6)
    categories = torch.stack([torch.randint(count, (rows,)) for count in CATEGORIES], 1)
    protected = categories[:, 6] == 1
    label = torch.rand(rows) < (numbers[:, 0] + 0.3 * (categories[:, 0] - 4) + 0.8 * protected - 1).sigmoid()
    return numbers, categories + torch.tensor([0, *CATEGORIES[:-1]]).cumsum(0), label, protected


def gap(label: bool) -> Callable[[Tensor, tuple[Tensor, ...]], Tensor]:
    """The difference between the mean predictions for the two groups, among rows with that label."""

    def loss(logit: Tensor, batch: tuple[Tensor, ...]) -> Tensor:
        members = ((batch[2] == label) & torch.stack([batch[3], ~batch[3]])).to(logit)
        means = (logit.sigmoid() * members).sum(1) / members.sum(1).clamp_min(1)
        return (means[0] - means[1]).abs()

    return loss


class Stopwatch(hf.Callback):
    """Seconds of every epoch but the first."""

    def __init__(self, clock: Clock):
        self.clock, self.times = clock, []

    def epoch_ended(self, record: dict[str, Any]) -> None:
        self.times.append(self.clock())

    def seconds(self) -> list[float]:
        return [after - before for before, after in zip(self.times, self.times[1:])]


def fairness(turns: int, clock: Clock) -> None:
    problem = hf.supervised(
        table(32559),
        losses={
            "bce": lambda logit, batch: F.binary_cross_entropy_with_logits(logit, batch[2].to(logit)),
            "fp_penalty": gap(False),
            "fn_penalty": gap(True),
        },
        inputs=lambda batch: batch[:2],
    )
    print(f"\nfairness, batch 256\n{'fit':<30}{'median us':>10}{'least us':>10}{'35 epochs, s':>14}")
    for solver in (hf.LS(), hf.EPO(), hf.EPO()):
        model = hf.wrap(TabularNet(6, CATEGORIES), problem.objectives, hidden=25)
        watch = Stopwatch(clock)
        run = hf.fit(model, problem, solver=solver, preferences=hf.Dirichlet(1.0), epochs=turns + 1, callbacks=[watch])
        seconds, steps = watch.seconds(), run.history[0]["step"]
        middle = statistics.median(seconds)
        name = f"PHN-{type(solver).__name__}"
        print(f"{name:<30}{1e6 * middle / steps:>10.0f}{1e6 * min(seconds) / steps:>10.0f}{35 * middle:>14.1f}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--batch", type=int, default=256)
    parser.add_argument("--turns", type=int, default=5)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    torch.manual_seed(0)
    print(f"{options.threads} thread(s), torch {torch.__version__}")
    clock = time.process_time if options.threads == 1 else time.perf_counter
    lenet(options.batch, options.turns, clock)
    fairness(options.turns, clock)


if __name__ == "__main__":
    main()
