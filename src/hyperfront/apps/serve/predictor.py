"""The predictor: rows at the same ray go through its network together, and several rays in one pass.

Rays with one row each can run one after the other, or all at once under ``torch.vmap``, which takes longer to start.
The number of rays from which ``vmap`` is faster depends on the module, so it is measured once.
"""

from __future__ import annotations

import math
import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from hyperfront.apps.shared.cache import RayWeights, WeightCache
from hyperfront.preferences import das_dennis
from hyperfront.storage.batches import Batch

Outputs = tuple[Tensor, ...]
AT_ONCE = 2**23
"""Most bytes of weights in one pass; more would not fit in the processor's cache."""
SLOW = 0.01
"""Seconds for one row, above which the start of a pass does not matter."""


class Query(NamedTuple):
    """The rays and inputs of one request."""

    rays: np.ndarray
    """``[1, m]`` for all rows, or ``[rows, m]``; single precision."""
    inputs: tuple[Tensor, ...]
    rows: int


@dataclass(eq=False)
class _Group:
    """Rows of any query that share a ray and the shapes of their inputs."""

    ray: np.ndarray
    sizes: tuple
    members: list[tuple[int, list[int] | None, tuple[Tensor, ...]]] = field(default_factory=list)
    """The query, the numbers of its rows (None: all rows), and their inputs."""

    def inputs(self) -> tuple[Tensor, ...]:
        parts = [inputs for _, _, inputs in self.members]
        return parts[0] if len(parts) == 1 else tuple(torch.cat(columns) for columns in zip(*parts))

    @property
    def single(self) -> bool:
        """Whether the group has one row, or no inputs."""
        return not self.sizes or (len(self.members) == 1 and len(self.members[0][2][0]) == 1)


class Predictor:
    """``nest`` hands inputs to the module, ``flatten`` makes a tuple of tensors ``[rows, ...]`` of its output."""

    def __init__(
        self,
        cache: WeightCache,
        nest: Callable[[Sequence[Tensor]], Batch],
        flatten: Callable[[Any], Outputs],
    ):
        self.cache, self.nest, self.flatten = cache, nest, flatten
        self.together_from: float = math.inf
        """The number of rays with one row each from which one pass is faster."""
        self.seconds_for_row = self.seconds_for_ray = 0.0
        """Seconds for a row at a cached ray, and for the weights of a new ray."""

    @torch.inference_mode()
    def __call__(self, queries: Sequence[Query]) -> list[Outputs]:
        """Predict the outputs of each query, in its own order of rows."""
        if len(queries) == 1 and len(queries[0].rays) == 1:
            query = queries[0]
            return self._one_by_one(self.cache.get(query.rays), [query.inputs])
        answers: list[list[tuple[list[int] | None, Outputs]]] = [[] for _ in queries]
        kinds: dict[tuple | None, list[_Group]] = {}
        for group in _groups(queries):
            kinds.setdefault(group.sizes if group.single else None, []).append(group)
        for kind, groups in kinds.items():
            size = max(1, AT_ONCE // (4 * self.cache.model.target.held))
            for start in range(0, len(groups), size):
                part = groups[start : start + size]
                together = kind is not None and len(part) >= self.together_from
                run = self._together if together else self._one_by_one
                weights = self.cache.get([group.ray for group in part])
                for group, outputs in zip(part, run(weights, [group.inputs() for group in part])):
                    _hand_out(group, outputs, answers)
        return [_in_order(parts, query.rows) for parts, query in zip(answers, queries)]

    def _one_by_one(self, weights: list[RayWeights], inputs: list[tuple[Tensor, ...]]) -> list[Outputs]:
        return [self.flatten(self.cache.run(at, self.nest(x))) for at, x in zip(weights, inputs)]

    def _together(self, weights: list[RayWeights], inputs: list[tuple[Tensor, ...]]) -> list[Outputs]:
        shared, own = weights[0].tensors, weights[0].own
        stacked = [torch.stack([at.tensors[name] for at in weights]) for name in own]

        def one(tensors: list[Tensor], *x: Tensor) -> Outputs:
            several = RayWeights(shared | dict(zip(own, tensors)), own, 0)
            return self.flatten(self.cache.run(several, self.nest(x)))

        outputs = torch.vmap(one)(stacked, *(torch.stack(column) for column in zip(*inputs)))
        return list(zip(*(output.unbind() for output in outputs)))

    def seconds(self, queries: Sequence[Query]) -> float:
        """Estimate the longest time in seconds for the queries."""
        return sum(query.rows * self.seconds_for_row + len(query.rays) * self.seconds_for_ray for query in queries)

    @torch.inference_mode()
    def measure(self, row: tuple[Tensor, ...]) -> None:
        """Measure the time of a ``row`` (or a few), and the number of rays from which one pass is faster.

        R rays take ``l R`` one after the other, and ``a + b R`` all at once. So one pass is faster from ``a / (l - b)``
        rays.
        """
        m = self.cache.model.m
        weights = self.cache.get(das_dennis(m, 7)[:8].float().numpy())
        inputs = [row] * 8
        rows = len(row[0]) if row else 1
        self.seconds_for_row = _seconds(lambda: self._one_by_one(weights[:1], inputs[:1]), 3) / rows
        self.seconds_for_ray = _seconds(lambda: self.cache.generate(np.full((1, m), 1 / m, np.float32)), 3)
        if rows > 1 or self.seconds_for_row > SLOW or not self.cache.model.target.stacking.possible:
            return
        try:
            with warnings.catch_warnings(record=True) as seen:  # as errors, they would fail requests of other threads
                warnings.simplefilter("always")
                alone, two, eight = (
                    _seconds(partial(run, weights[:count], inputs[:count]), 10)
                    for run, count in ((self._one_by_one, 8), (self._together, 2), (self._together, 8))
                )
        except (RuntimeError, ValueError, NotImplementedError):
            return  # vmap cannot batch this module
        if seen:  # vmap warns where it falls back to a loop
            return
        each = (eight - two) / 6
        if alone / 8 > each:
            self.together_from = max(2, math.ceil((two - 2 * each) / (alone / 8 - each)))


def _groups(queries: Sequence[Query]) -> list[_Group]:
    groups: dict[tuple, _Group] = {}
    for index, query in enumerate(queries):
        sizes = tuple(tensor.shape[1:] for tensor in query.inputs)
        if len(query.rays) == 1:
            key = (query.rays.tobytes(), sizes)
            group = groups.get(key) or groups.setdefault(key, _Group(query.rays[0], sizes))
            group.members.append((index, None, query.inputs))
            continue
        places: dict[bytes, list[int]] = {}
        for row, ray in enumerate(query.rays):
            places.setdefault(ray.tobytes(), []).append(row)
        for ray, rows in places.items():
            group = groups.get((ray, sizes)) or groups.setdefault((ray, sizes), _Group(query.rays[rows[0]], sizes))
            chosen = tuple(tensor[rows[0] : rows[0] + 1] if len(rows) == 1 else tensor[rows] for tensor in query.inputs)
            group.members.append((index, rows, chosen))
    return list(groups.values())


def _hand_out(group: _Group, outputs: Outputs, answers: list[list[tuple[list[int] | None, Outputs]]]) -> None:
    """Give each member its part of the group's outputs."""
    if group.sizes:
        counts = [len(inputs[0]) for _, _, inputs in group.members]
        parts = zip(*(output.split(counts) for output in outputs)) if len(counts) > 1 else [outputs]
    else:  # an analytic problem: one point for the ray, also for several queries
        counts = [1 if rows is None else len(rows) for _, rows, _ in group.members]
        parts = (tuple(output.expand(count, *output.shape[1:]) for output in outputs) for count in counts)
    for (index, rows, _), part in zip(group.members, parts):
        answers[index].append((rows, part))


def _in_order(parts: list[tuple[list[int] | None, Outputs]], rows: int) -> Outputs:
    if len(parts) == 1:  # the rows of one ray are in order
        return parts[0][1]
    order = torch.empty(rows, dtype=torch.long)
    order[torch.tensor([row for places, _ in parts for row in places or ()])] = torch.arange(rows)
    return tuple(torch.cat(column)[order] for column in zip(*(outputs for _, outputs in parts)))


def _seconds(function: Callable[[], Any], times: int) -> float:
    """The shortest of ``times`` times, after one call to warm up."""
    found = []
    for _ in range(1 + times):
        start = time.perf_counter()
        function()
        found.append(time.perf_counter() - start)
    return min(found[1:])
