"""A cache of the weights generated for rays.

A hypernetwork costs as much as several predictions, and requests often repeat a few rays. The cache works without a
server: ``WeightCache(model).get(rays)``.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from hyperfront.model import ParetoModel
from hyperfront.model.substitution import Network
from hyperfront.storage.batches import Batch, arguments

MEGABYTE = 2**20


@dataclass(frozen=True, eq=False)
class RayWeights:
    """The network at one ray."""

    tensors: dict[str, Tensor]
    """All tensors that the module needs, by name."""
    own: tuple[str, ...]
    """The names of tensors that belong to this ray; all rays share the others."""
    nbytes: int
    """Bytes of the tensors that belong to this ray."""


class WeightCache:
    """Keeps weights of at most ``max_bytes``; the least recently used rays are removed first. Threads may share it.

    >>> import hyperfront as hf
    >>> cache = WeightCache(hf.wrap(torch.nn.Linear(3, 1), ["cost", "risk"], hidden=8))
    >>> first, second = cache.get([[0.5, 0.5], [0.9, 0.1]])
    >>> cache.run(first, torch.zeros(4, 3)).shape, cache.get([[0.5, 0.5]])[0] is first
    (torch.Size([4, 1]), True)
    """

    def __init__(self, model: ParetoModel, max_bytes: int = 256 * MEGABYTE):
        self.model, self.max_bytes = model.eval(), max_bytes
        self.hits = self.misses = self.evictions = self.nbytes = 0
        self._kept: OrderedDict[bytes, RayWeights] = OrderedDict()
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self._kept)

    def get(self, rays: np.ndarray | Sequence) -> list[RayWeights]:
        """Return the weights at each of ``rays [R, m]``; missing ones are generated together."""
        table = np.ascontiguousarray(rays, dtype=np.float32)
        keys = [row.tobytes() for row in table]
        found, missing = {}, {}
        with self._lock:
            for index, key in enumerate(keys):
                if (kept := self._kept.get(key)) is not None:
                    self._kept.move_to_end(key)
                    found[key] = kept
                else:
                    missing[key] = index
            self.hits += len(keys) - len(missing)
            self.misses += len(missing)
        if missing:
            made = dict(zip(missing, self.generate(table[list(missing.values())])))
            self._keep(made)
            found |= made
        return [found[key] for key in keys]

    def run(self, weights: RayWeights, x: Batch) -> Any:
        """Compute the network's output on ``x``."""
        args, kwargs = arguments(x)
        return Network(self.model.target, weights.tensors)(*args, **kwargs)

    @torch.no_grad()
    def generate(self, rays: np.ndarray) -> list[RayWeights]:
        """Generate the weights at each of ``rays [R, m]``, without looking them up."""
        exact = rays.astype(np.float64)
        total = exact.sum(-1, keepdims=True)
        if np.isfinite(total).all() and (total > 0).all():
            exact = exact / total  # sums of float32 are only close to 1; prepare refuses invalid rays
        table = self.model.prepare(torch.from_numpy(exact))
        theta, target = self.model.hypernet(table), self.model.target
        statistics = target.statistics_for(table, theta)
        if len(theta) == 1:
            return [self._weights(theta[0], statistics[0])]
        return [
            self._weights(*(row.clone() for row in rows)) for rows in zip(theta, statistics)
        ]  # a copy, so that a row does not keep the whole table in memory

    def _weights(self, theta: Tensor, statistics: Tensor) -> RayWeights:
        shared, tensors = self.model.target.shared(), self.model.target.assembled(theta, statistics)
        own = tuple(name for name, tensor in tensors.items() if tensor is not shared.get(name))
        storages = {s.data_ptr(): s.nbytes() for s in (tensors[name].untyped_storage() for name in own)}
        return RayWeights(tensors, own, sum(storages.values()))

    def _keep(self, made: dict[bytes, RayWeights]) -> None:
        with self._lock:
            for key, weights in made.items():
                if key not in self._kept:
                    self.nbytes += weights.nbytes
                self._kept[key] = weights
            while self.nbytes > self.max_bytes and self._kept:
                _, oldest = self._kept.popitem(last=False)
                self.nbytes -= oldest.nbytes
                self.evictions += 1
