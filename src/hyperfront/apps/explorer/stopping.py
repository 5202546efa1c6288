"""Data whose reader can be stopped by another thread."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import torch

from hyperfront.problem.sources import Source
from hyperfront.storage.batches import Batch


class Stopped(Exception):
    """The measurement was stopped before it had seen all data."""


class Stoppable:
    """The batches of a source, until ``event`` is set: then :class:`Stopped` is raised instead of the next one."""

    def __init__(self, source: Source, event: threading.Event):
        self._source, self._event, self.exact = source, event, source.exact

    def steps(self, batch_size: int) -> int:
        return self._source.steps(batch_size)

    def epoch(self, batch_size: int, generator: torch.Generator, device: torch.device, skip: int) -> Iterator[Batch]:
        return self._source.epoch(batch_size, generator, device, skip)

    def batches(self, batch_size: int, device: torch.device) -> Iterator[Batch]:
        for batch in self._source.batches(batch_size, device):
            if self._event.is_set():
                raise Stopped
            yield batch
