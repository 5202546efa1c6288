"""The team: the processes of a job that train one model together, as :func:`hyperfront.fit` finds them.

torchrun gives each process its rank, the number of processes and the address of a store. :func:`join` makes the process
group of them, unless the script has made one. Without torchrun, a team has one member.
"""

from __future__ import annotations

import atexit
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, TypeVar

import torch
from torch import Tensor
from torch import distributed as dist

from hyperfront.errors import HyperfrontError
from hyperfront.training import ranks

PATIENCE = 300.0
"""Seconds that the processes of a job wait for each other at its start."""
Item = TypeVar("Item")


@dataclass(frozen=True)
class Team:
    """A process among ``size`` processes that train together."""

    rank: int = 0
    size: int = 1

    @property
    def first(self) -> bool:
        """Whether this process writes the files of the run and reports its progress."""
        return self.rank == 0

    @property
    def alone(self) -> bool:
        return self.size == 1

    def gather(self, thing: Any) -> list[Any]:
        """Return what all ranks handed over, in their order; the call waits for them."""
        if self.alone:
            return [thing]
        found: list[Any] = [None] * self.size
        with ranks.connected():
            dist.all_gather_object(found, thing)
        return found

    def largest(self, number: int) -> int:
        """Return the largest number of all ranks."""
        return max(self.gather(number))

    def share(self, work: Callable[[Tensor], Sequence[Tensor]], items: Tensor) -> list[Tensor]:
        """Return ``work(items)``, tensors with a row for each item; every rank computes some of the rows."""
        if self.alone or not len(items):
            return list(work(items))
        own = range(self.rank, len(items), self.size)
        found = [tensor.cpu() for tensor in work(items[list(own)])] if own else []
        parts = [part for part in self.gather(found) if part]
        order = torch.cat([torch.arange(rank, len(items), self.size) for rank in range(len(parts))]).argsort()
        return [torch.cat(columns)[order] for columns in zip(*parts)]

    @contextmanager
    def raising(self) -> Iterator[None]:
        """Raise an error of one rank within the ``with`` block on all ranks. Nothing inside may wait for another
        rank."""
        error: HyperfrontError | None = None
        try:
            yield
        except HyperfrontError as found:
            if self.alone:
                raise
            error = found
        if self.alone:
            return
        said = self.gather(None if error is None else str(error))
        if error is not None and len(set(said)) == 1:
            raise error
        for rank, words in enumerate(said):
            if words is not None:
                raise HyperfrontError(f"rank {rank} of {self.size} stopped: {words}") from error


ALONE = Team()


def join(seconds: float = PATIENCE) -> Team:
    """Return the team of this process. Under torchrun, wait for the other processes and connect with them."""
    if ranks.world_size() > 1:
        return Team(dist.get_rank(), dist.get_world_size())
    if ranks.job_size() == 1:
        return Team()
    if not dist.is_available():
        raise HyperfrontError("this PyTorch cannot connect processes", got="a build without torch.distributed")
    try:
        rank, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
        host, port = os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])
    except (KeyError, ValueError) as error:
        raise HyperfrontError(
            "the environment announces several processes, but not how to reach them",
            got=f"WORLD_SIZE = {os.environ.get('WORLD_SIZE')}, and {error!r}",
            expected="RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT, as torchrun sets them",
            fix="torchrun --nproc-per-node N script.py",
        ) from None
    hosted = os.environ.get("TORCHELASTIC_USE_AGENT_STORE") == "True"
    attempt = os.environ.get("TORCHELASTIC_RESTART_COUNT", "0")
    wait = timedelta(seconds=seconds)
    try:
        store = dist.TCPStore(host, port, size, rank == 0 and not hosted, wait, wait_for_workers=False)
    except (RuntimeError, ValueError) as error:
        raise HyperfrontError(
            f"rank {rank} of {size} cannot reach rank 0 of the job",
            got=f"no answer from {host}:{port} in {seconds:g} s: {str(error).partition(chr(10))[0]}",
            fix="check MASTER_ADDR and MASTER_PORT, and that rank 0 runs",
        ) from error
    _meet(dist.PrefixStore(f"hyperfront {attempt}", store), rank, size, wait)
    if torch.cuda.is_available():
        torch.cuda.set_device(int(os.environ.get("LOCAL_RANK", 0)))
    dist.init_process_group(store=dist.PrefixStore(f"group {attempt}", store), rank=rank, world_size=size)
    atexit.register(dist.destroy_process_group)  # its threads abort a process that ends without it
    return Team(rank, size)


def _meet(store: dist.Store, rank: int, size: int, wait: timedelta) -> None:
    """Wait until all ranks are here, or raise an error that names the missing ones."""
    store.set(str(rank), "here")
    try:
        store.wait([str(each) for each in range(size)], wait)
    except RuntimeError as error:
        missing = [str(each) for each in range(size) if not store.check([str(each)])]
        raise HyperfrontError(
            f"not all processes of the job have started: rank {', '.join(missing)} of {size} is missing",
            got=f"{size - len(missing)} processes after {wait.total_seconds():g} s (this is rank {rank})",
            expected=f"{size}, as WORLD_SIZE says",
            fix="look at the messages of that process, or start all of them with torchrun",
        ) from error
