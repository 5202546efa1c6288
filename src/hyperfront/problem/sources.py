"""Sources of batches: tensors held on the device, your own loader, or no data (analytic problems)."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Protocol, TypeGuard

import torch
from torch import Tensor

from hyperfront.errors import ProblemError
from hyperfront.storage.batches import Batch, refuse_uncut, row_range, rows, take, to_device
from hyperfront.storage.nests import tensors


class Source(Protocol):
    """Batches for training and for evaluation."""

    exact: bool
    """Whether an epoch can be resumed in the middle. It can if its order depends on the generator alone."""

    def steps(self, batch_size: int) -> int:
        """Number of training steps in an epoch; a last partial batch is dropped."""
        ...

    def epoch(self, batch_size: int, generator: torch.Generator, device: torch.device, skip: int) -> Iterator[Batch]:
        """Yield the training batches of one epoch, without the first ``skip``."""
        ...

    def batches(self, batch_size: int, device: torch.device) -> Iterator[Batch]:
        """Yield all rows, in order."""
        ...


class Augmentation(Protocol):
    """A random change of training batches, whose random numbers are drawn separately.

    The numbers are drawn on the CPU for a whole epoch. So every device gets the same numbers, and a step captured in a
    CUDA graph applies them only.
    """

    def draw(self, rows: int, generator: torch.Generator) -> Tensor:
        """Draw random numbers ``[rows, ...]`` on the CPU."""
        ...

    def __call__(self, batch: Batch, numbers: Tensor) -> Batch:
        """Change the batch ``[B, ...]`` by its numbers ``[B, ...]``, on their device."""
        ...


class TensorSource:
    """Tensors ``[N, ...]`` in memory, moved to the device once and shuffled there by a permutation drawn on the CPU.

    Data that would take more than half of a GPU's free memory stay on the CPU, and batches are moved one by one.
    """

    exact = True

    def __init__(self, data: Batch, augment: Augmentation | None = None):
        refuse_uncut(data, "shuffled")
        self.data, self.rows, self.augment = data, rows(data), augment
        if not self.rows:
            raise ProblemError("a split has no rows")

    def steps(self, batch_size: int) -> int:
        if batch_size > self.rows:
            raise ProblemError(
                "a batch is larger than the data", got=f"batch_size = {batch_size}", expected=f"<= {self.rows} rows"
            )
        return self.rows // batch_size

    def on(self, device: torch.device) -> Batch:
        """Return the data, moved to the device at the first call, if they fit there."""
        if any(tensor.device != device for tensor in tensors(self.data)) and self.fits(device):
            self.data = to_device(self.data, device)
        return self.data

    def fits(self, device: torch.device) -> bool:
        """Whether the data are on the device, or fit there."""
        device = torch.device(device)
        absent = sum(tensor.nbytes for tensor in tensors(self.data) if tensor.device != device)
        return not absent or device.type != "cuda" or absent <= torch.cuda.mem_get_info(device)[0] // 2

    def draw(self, batch_size: int, generator: torch.Generator) -> tuple[Tensor, ...]:
        """Draw the random numbers of an epoch on the CPU: rows ``[steps, B]`` and numbers of the augmentation."""
        steps = self.steps(batch_size)
        order = torch.randperm(self.rows, generator=generator)[: steps * batch_size]
        drawn = (order, self.augment.draw(len(order), generator)) if self.augment else (order,)
        return tuple(tensor.view(steps, batch_size, *tensor.shape[1:]) for tensor in drawn)

    def batch(self, drawn: Sequence[Tensor], device: torch.device) -> Batch:
        """Return the training batch of one step, from the numbers drawn for that step."""
        batch = to_device(take(self.on(device), drawn[0]), device)
        return self.augment(batch, drawn[1]) if self.augment else batch

    def epoch(self, batch_size: int, generator: torch.Generator, device: torch.device, skip: int) -> Iterator[Batch]:
        drawn = [tensor.to(device) for tensor in self.draw(batch_size, generator)]
        for step in range(skip, self.steps(batch_size)):
            yield self.batch([tensor[step] for tensor in drawn], device)

    def batches(self, batch_size: int, device: torch.device) -> Iterator[Batch]:
        data = self.on(device)
        for start in range(0, self.rows, batch_size):
            yield to_device(row_range(data, start, start + batch_size), device)


class LoaderSource:
    """Any sized iterable of batches, such as a ``DataLoader``, with its own batch size and shuffling."""

    exact = False

    def __init__(self, loader: Iterable[Batch], counted: bool = False):
        self.loader: Any = loader
        self.counted = counted
        """Whether a function of the problem counts rows, instead of first dimensions."""
        self.generator: torch.Generator | None = getattr(loader, "generator", None)
        size = getattr(loader, "batch_size", None)
        drawn_from = (getattr(loader, "sampler", None), getattr(loader, "dataset", None))
        self.drawn_from: Any = next((part for part in drawn_from if hasattr(part, "__len__")), None)
        self.batch_size = size if isinstance(size, int) and self.drawn_from is not None else None

    def steps(self, batch_size: int) -> int:
        try:
            return len(self.drawn_from) // self.batch_size if self.batch_size else len(self.loader)
        except TypeError:
            raise ProblemError(
                "the number of batches in an epoch is unknown",
                got=f"a {type(self.loader).__name__} without a length",
                expected="a loader with a length, since schedules and checkpoints count steps",
                fix="give the data set __len__, or collect the batches of an epoch in a list",
            ) from None

    def epoch(self, batch_size: int, generator: torch.Generator, device: torch.device, skip: int) -> Iterator[Batch]:
        steps = self.steps(batch_size) if self.batch_size and self.counted else None
        for batch in itertools.islice(self.batches(batch_size, device), steps):  # a last partial batch is dropped
            if self.counted or not self.batch_size or rows(batch) == self.batch_size:
                yield batch

    def batches(self, batch_size: int, device: torch.device) -> Iterator[Batch]:
        for batch in self.loader:
            yield to_device(batch, device)


@contextmanager
def looking(source: Source, device: torch.device) -> Iterator[None]:
    """Restore the state of all random generators, also of a loader's, after the ``with`` block read batches."""
    generator: torch.Generator | None = getattr(source, "generator", None)
    state = None if generator is None else generator.get_state()
    try:
        with torch.random.fork_rng(devices=[device] if device.type == "cuda" else []):
            yield
    finally:
        if generator is not None and state is not None:
            generator.set_state(state)


@dataclass(frozen=True)
class NoData:
    """The source of an analytic problem: batches are empty, and an epoch is a fixed number of steps."""

    steps_per_epoch: int = 100
    exact = True

    def steps(self, batch_size: int) -> int:
        return self.steps_per_epoch

    def draw(self, batch_size: int, generator: torch.Generator) -> tuple[Tensor, ...]:
        return ()

    def batch(self, drawn: Sequence[Tensor], device: torch.device) -> Batch:
        return ()

    def epoch(self, batch_size: int, generator: torch.Generator, device: torch.device, skip: int) -> Iterator[Batch]:
        yield from ((),) * (self.steps_per_epoch - skip)

    def batches(self, batch_size: int, device: torch.device) -> Iterator[Batch]:
        yield ()


def resident(source: Source, device: torch.device) -> TypeGuard[TensorSource | NoData]:
    """Whether the data are on the device and random numbers drawn beforehand, so that steps can be captured."""
    return isinstance(source, NoData) or (isinstance(source, TensorSource) and source.fits(device))
