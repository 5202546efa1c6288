"""Networks for tables: raw numbers and categories in, a score out. Filling, scaling and embeddings are inside.

For a number ``x`` of a column with mean ``a``, standard deviation ``s`` and quantiles ``b_0 < ... < b_q`` in the
training rows, the layers see

    z = (x - a) / s, clipped to [-5, 5]                                                                            (1)
    e_t = (x - b_{t-1}) / (b_t - b_{t-1}), clipped to [0, 1], for t = 1, ..., q                                    (2)

and 0 for all of them where ``x`` is missing, with a further input that says so. (2) is the piecewise linear encoding of
Gorishniy et al. (2022, "On embeddings for numerical features in tabular deep learning", equation 1); the network
``linear`` has (1) only. A category is a row of one table of embeddings for all columns; the row of unseen and missing
values starts at 0.
"""

from __future__ import annotations

import itertools
from typing import Literal

import torch
from torch import Tensor, nn

from hyperfront.errors import HyperfrontError, shown
from hyperfront.errors.signatures import is_plain
from hyperfront.tabular.schema import Schema

Kind = Literal["linear", "mlp", "resnet"]
EMBEDDING = 4
"""Length of the embedding of a category."""
CLIP = 5.0
WIDTH, BLOCKS = 64, 2


class TableNet(nn.Module):
    """A network on numbers ``[B, k]``, NaN where missing, and codes ``[B, c]``, 0 where missing or unseen.

    It returns logits ``[B]`` of the positive class, logits ``[B, K]`` of several classes, or predictions ``[B]`` of a
    regression. The statistics of the training rows are buffers, from the schema.
    """

    mean: Tensor
    scale: Tensor
    gaps: Tensor
    low: Tensor
    width: Tensor
    sizes: Tensor
    first: Tensor
    output: Tensor

    def __init__(self, schema: Schema, kind: Kind = "mlp"):
        super().__init__()
        self.schema = schema
        numbers, categories = schema.numbers, schema.categories
        self.register_buffer("mean", torch.tensor([column.mean for column in numbers]))
        self.register_buffer("scale", torch.tensor([column.scale for column in numbers]))
        self.register_buffer("gaps", torch.tensor([n for n, column in enumerate(numbers) if column.gaps]).long())
        bins = [] if kind == "linear" else [bounds for column in numbers for bounds in _bins(column.edges)]
        places = [] if kind == "linear" else [n for n, column in enumerate(numbers) for _ in _bins(column.edges)]
        self.register_buffer("places", torch.tensor(places).long())
        self.register_buffer("low", torch.tensor([low for low, _ in bins]))
        self.register_buffer("width", torch.tensor([high - low for low, high in bins]))
        sizes = [1 + len(column.values) for column in categories]
        self.register_buffer("sizes", torch.tensor(sizes).long())
        self.register_buffer("first", torch.tensor([sum(sizes[:n]) for n in range(len(sizes))]).long())
        self.register_buffer("output", torch.tensor([schema.center, schema.spread]))
        self.embedding = nn.Embedding(max(1, sum(sizes)), EMBEDDING)
        nn.init.normal_(self.embedding.weight, std=0.1)  # with large embeddings rare categories are learned by heart
        with torch.no_grad():
            self.embedding.weight[self.first] = 0
        width = len(numbers) + len(self.gaps) + len(bins) + EMBEDDING * len(sizes)
        self.layers = _layers(kind, width, len(schema.classes) if schema.task == "classes" else 1)

    def forward(self, numbers: Tensor, categories: Tensor) -> Tensor:
        if not torch.compiler.is_compiling():
            self._check(numbers, categories)
        found = self.layers(self.features(numbers, categories))
        if self.schema.task == "classes":
            return found
        found = found.squeeze(-1)
        return self.output[0] + self.output[1] * found if self.schema.task == "regression" else found

    def _check(self, numbers: object, categories: object) -> None:
        """Raise an error unless the inputs are one row of numbers and one of codes for each row of the table."""
        widths = (len(self.mean), len(self.sizes))
        right = all(
            is_plain(value) and value.ndim and value.shape[-1] == width  # pyrefly: ignore[missing-attribute]
            for value, width in zip((numbers, categories), widths)
        )
        if (
            not right
            or categories.is_floating_point()  # pyrefly: ignore[missing-attribute]
            or numbers.shape[:-1] != categories.shape[:-1]  # pyrefly: ignore[missing-attribute]
        ):
            raise HyperfrontError(
                "a network for tables takes numbers and the codes of categories",
                got=" and ".join(map(_described, (numbers, categories))),
                expected=f"numbers [B, {widths[0]}] and whole numbers [B, {widths[1]}]",
                fix="schema_of(model).encode(rows) makes both from the rows of a table",
            )

    def features(self, numbers: Tensor, categories: Tensor) -> Tensor:
        """The inputs ``[B, w]`` of the layers."""
        numbers = numbers.to(self.mean)
        missing = numbers.isnan() | numbers.isinf()
        filled = torch.where(missing, self.mean, numbers)
        parts = [((filled - self.mean) / self.scale).clamp(-CLIP, CLIP)]
        if len(self.gaps):
            parts.append(missing.index_select(-1, self.gaps).to(filled))
        if len(self.places):
            position = (filled.index_select(-1, self.places) - self.low) / self.width
            absent = missing.index_select(-1, self.places)
            parts.append(torch.where(absent, 0.0, position.clamp(0, 1)))
        if len(self.sizes):
            known = torch.where((categories < 0) | (categories >= self.sizes), 0, categories) + self.first
            # nn.Embedding's own gradient goes row by row on a CPU
            rows = self.embedding.weight.index_select(0, known.flatten())
            parts.append(rows.view(*known.shape[:-1], -1))
        return torch.cat(parts, dim=-1)


class Residual(nn.Module):
    """``x + B relu(A norm(x))``: a block of the ResNet for tables (Gorishniy et al. 2021, "Revisiting deep learning
    models for tabular data"), with LayerNorm, which does not depend on other rows."""

    def __init__(self, width: int):
        super().__init__()
        self.norm, self.inner, self.outer = nn.LayerNorm(width), nn.Linear(width, width), nn.Linear(width, width)

    def forward(self, x: Tensor) -> Tensor:
        return x + self.outer(self.inner(self.norm(x)).relu())


def _layers(kind: Kind, width: int, outputs: int) -> nn.Module:
    if kind == "linear":
        return nn.Sequential(nn.Linear(width, outputs))
    if kind == "mlp":
        half = WIDTH // 2
        return nn.Sequential(
            nn.Linear(width, WIDTH), nn.ReLU(), nn.Linear(WIDTH, half), nn.ReLU(), nn.Linear(half, outputs)
        )
    blocks = [Residual(WIDTH) for _ in range(BLOCKS)]
    return nn.Sequential(nn.Linear(width, WIDTH), *blocks, nn.LayerNorm(WIDTH), nn.ReLU(), nn.Linear(WIDTH, outputs))


def _bins(edges: tuple[float, ...]) -> list[tuple[float, float]]:
    return [*itertools.pairwise(edges)]


def _described(value: object) -> str:
    return f"{value.dtype} {list(value.shape)}" if is_plain(value) else shown(value)  # pyrefly: ignore
