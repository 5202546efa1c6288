"""Several processes that train one model, each on its own rows (``torch.distributed``).

All ranks draw the same rays. A step averages the losses and the gradients with respect to ``theta`` over the ranks
before the solver sees them, so that every rank solves the same program, on the whole batch, and makes the same update
of the hypernetwork. So the gradients of the hypernetwork, which are a hundred times as large, need no averaging.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

import torch
from torch import Tensor
from torch import distributed as dist

from hyperfront.errors import HyperfrontError

LARGE = 2**20
"""Bytes from which on a tensor is a message of its own, since to copy it would take longer than another message."""


def world_size() -> int:
    """Return the number of processes that train together; 1 without ``torch.distributed``."""
    return dist.get_world_size() if dist.is_available() and dist.is_initialized() else 1


def job_size() -> int:
    """Return the number of processes that a launcher such as torchrun started, connected or not."""
    return max(world_size(), int(os.environ.get("WORLD_SIZE", 1)))


@contextmanager
def connected() -> Iterator[None]:
    """Explain a failure of communication within the ``with`` block."""
    try:
        yield
    except RuntimeError as error:
        raise HyperfrontError(
            "the connection to another process of this job is lost",
            got=f"{str(error).strip().partition(chr(10))[0]} (rank {dist.get_rank()} of {dist.get_world_size()})",
            expected="all processes of the job alive until the end",
            fix="the process that ended first says why; start the job again with resume=True to continue from its last "
            "checkpoint, or let torchrun do so (--max-restarts)",
        ) from error


def average(tensors: Iterable[Tensor]) -> None:
    """Replace each tensor by its mean over the ranks, in place. Small ones of a kind travel in one message."""
    buckets: dict[tuple[torch.dtype, torch.device], list[Tensor]] = {}
    for tensor in tensors:
        if tensor.nbytes < LARGE:
            buckets.setdefault((tensor.dtype, tensor.device), []).append(tensor)
        else:
            _average(tensor)
    for bucket in buckets.values():
        if len(bucket) == 1:
            _average(bucket[0])
            continue
        flat = torch.cat([tensor.reshape(-1) for tensor in bucket])
        _average(flat)
        for tensor, part in zip(bucket, flat.split([tensor.numel() for tensor in bucket])):
            tensor.copy_(part.view_as(tensor))


def _average(tensor: Tensor) -> None:
    with connected():
        dist.all_reduce(tensor)
    tensor.div_(dist.get_world_size())


def follow_first(tensors: Iterable[Tensor]) -> None:
    """Replace the values of each tensor by those of rank 0, in place."""
    for tensor in tensors:
        dense = tensor.contiguous()
        with connected():
            dist.broadcast(dense, src=0)
        if dense is not tensor:
            tensor.copy_(dense)


def check_same(rays: Tensor) -> None:
    """Raise an error if the ranks do not have the same rays."""
    everywhere = [torch.empty_like(rays) for _ in range(dist.get_world_size())]
    with connected():
        dist.all_gather(everywhere, rays.contiguous())
    if not all(torch.equal(rays, other) for other in everywhere):
        raise HyperfrontError(
            "the processes of this job train at different rays",
            expected="the same rays on all ranks, each with rows of its own",
            fix="draw rays from a generator with the same seed on every rank",
        )


def refuse_several(what: str) -> None:
    """Raise an error in a job of several processes, where each process would do the same work."""
    if (size := job_size()) > 1:
        raise HyperfrontError(
            f"{what} does not share its work among processes",
            got=f"a job of {size} processes",
            expected="one process",
            fix="start it without torchrun; hyperfront.fit and `hyperfront train` share their work",
        )
