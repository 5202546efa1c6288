"""The problems that are timed, with the paper's settings, on real data or on random numbers of the same shapes."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

import hyperfront as hf
from hyperfront.problem import Problem
from hyperfront.problem.recipe import Recipe
from hyperfront.problem.registry import build, recipe
from hyperfront.problem.sources import TensorSource
from hyperfront.zoo.fairness import DATA_SETS

Splits = Mapping[str, tuple[Tensor, ...]]


@dataclasses.dataclass(frozen=True)
class Case:
    """A problem to time."""

    name: str
    problem: Problem
    recipe: Recipe
    steps: int
    """Steps in an epoch of all the training data."""
    target: Callable[[], nn.Module]
    module: Callable[[], nn.Module]
    """The target again, in standard ``torch.nn`` calls."""
    losses: Callable[[Any, Any], Sequence[Tensor]]
    """``(network, batch) -> m losses`` in standard calls."""

    def model(self, device: torch.device) -> hf.ParetoModel:
        return self.problem.model(**self.recipe.model).to(device)

    def shortened(self, steps: int | None) -> Case:
        """The same with an epoch of at most that many steps."""
        source = self.problem.train.source
        assert isinstance(source, TensorSource)
        rows = slice(None if steps is None else steps * self.recipe.batch_size)
        train = TensorSource(tuple(column[rows] for column in source.data), source.augment)
        others = {name: self.problem.sources[name] for name in self.problem.sources if name != "train"}
        return dataclasses.replace(self, problem=dataclasses.replace(self.problem, sources={"train": train, **others}))


class PlainLeNet(nn.Module):
    """The paper's target for Multi-MNIST."""

    def __init__(self, *, relu: bool):
        super().__init__()
        self.relu = relu
        self.conv1, self.conv2 = nn.Conv2d(1, 10, 9), nn.Conv2d(10, 20, 5)
        self.fc, self.left, self.right = nn.Linear(500, 50), nn.Linear(50, 10), nn.Linear(50, 10)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        x = F.max_pool2d(F.relu(self.conv1(x)), 2)
        x = F.max_pool2d(F.relu(self.conv2(x)), 2)
        x = self.fc(x.flatten(1))
        x = F.relu(x) if self.relu else x
        return self.left(x), self.right(x)


@functools.cache
def make_case(name: str, data_dir: Path | None, *, rows: int | None = None) -> Case:
    """The problem of that name, or ``rows`` of it, with random data if there is no folder with the real ones."""
    settings = recipe(name, "paper")
    problem = build(name, **{**settings.arguments, "data_dir": data_dir, "rows": rows})
    if data_dir is None:
        sources = {split: TensorSource(data) for split, data in RANDOM[name](rows).items()}
        problem = dataclasses.replace(problem, sources=sources)
    target = problem.make_target
    assert target is not None
    module, losses = target, problem.each_loss
    if name == "multi-fashion-mnist":
        module, losses = lambda: PlainLeNet(relu=settings.arguments["relu"]), _cross_entropies
    return Case(name, problem, settings, problem.train.source.steps(settings.batch_size), target, module, losses)


def _cross_entropies(network: Any, batch: Any) -> Sequence[Tensor]:
    left, right = network(batch[0] * (1 / 255))
    return F.cross_entropy(left, batch[1]), F.cross_entropy(right, batch[2])


def _random_composites(most: int | None) -> Splits:
    def part(rows: int) -> tuple[Tensor, ...]:
        images = torch.randint(256, (rows, 1, 36, 36), dtype=torch.uint8)
        return images, torch.randint(10, (rows,)), torch.randint(10, (rows,))

    return {"train": part(most or 108_000), "test": part(most or 20_000)}


def _random_people(most: int | None) -> Splits:
    rows, data = most or 32_558, DATA_SETS["adult"]
    sizes = [len(kinds) for kinds in data.categories.values()]
    categories = torch.stack([torch.randint(size, (rows,)) for size in sizes], dim=1)
    categories = categories + torch.tensor([0, *sizes[:-1]]).cumsum(0)
    return {
        "train": (torch.randn(rows, len(data.numbers)), categories, torch.rand(rows) < 0.25, torch.rand(rows) < 0.3)
    }


def _random_motion(most: int | None) -> Splits:
    rows = most or 19_206
    return {"train": (torch.randn(rows, 21), torch.randn(rows, 7))}


RANDOM: dict[str, Callable[[int | None], Splits]] = {
    "multi-fashion-mnist": _random_composites,
    "adult": _random_people,
    "sarcos": _random_motion,
}
