"""Data whose reader can be stopped by another thread."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import torch

from hyperfront.problem.sources import Source
from hyperfront.storage.batches import Batch


class Stopped(Exception):
    """The measurement was stopped before it had seen all data."""


class Stoppable:
    """The batches of a source, until ``event`` is set: then :class:`Stopped` is raised instead of the next one."""

    def __init__(self, source: Source, event: threading.Event):
        self._source, self._event = source, event

    def __getattr__(self, name: str) -> Any:
        return getattr(self._source, name)

    def batches(self, batch_size: int, device: torch.device) -> Iterator[Batch]:
        for batch in self._source.batches(batch_size, device):
            if self._event.is_set():
                raise Stopped
            yield batch
