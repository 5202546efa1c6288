"""Agreement: the settings, data and versions that all processes of a job must share before they train together."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import torch
from torch import Tensor
from torch.nn.modules.batchnorm import _BatchNorm

from hyperfront.errors import HyperfrontError, ProblemError
from hyperfront.problem.sources import LoaderSource, Source, TensorSource
from hyperfront.storage import checksums
from hyperfront.storage.batches import Batch
from hyperfront.storage.nests import tensors
from hyperfront.storage.provenance import describe
from hyperfront.training.job import Job
from hyperfront.training.shares import batches_are_even
from hyperfront.training.state import TrainingState

READ = 2**28
"""The most bytes of a tensor that are compared; of a larger one, evenly spaced rows are."""
ROUNDED = 1e-3
"""The largest relative difference between ranks in the norms of weights."""


def check_agreement(job: Job, resume: bool) -> None:
    """Raise an error on every rank, which names the rank, if a rank has another job than rank 0."""
    team = job.team
    if team.alone:
        return
    with team.raising():
        check_shares(job)
        own = {"resume": resume, **dict(_parts(job))}
    refuse_others(team.gather(own))


def refuse_others(found: list[dict[str, Any]]) -> None:
    """Raise an error that names the first rank whose description differs from that of rank 0."""
    for rank, other in enumerate(found):
        names = [name for name in sorted(found[0].keys() | other.keys()) if found[0].get(name) != other.get(name)]
        if names:
            raise HyperfrontError(
                f"rank {rank} has another job than rank 0: {', '.join(names)} differ",
                got="; ".join(f"{name} = {_short(other.get(name))}" for name in names),
                expected="; ".join(f"{name} = {_short(found[0].get(name))}" for name in names),
                fix="start the same script on every rank, with the same versions, seed and data; every rank takes its "
                "rows of each batch by itself",
            )


def _parts(job: Job) -> Iterator[tuple[str, Any]]:
    """Name everything that ranks must share, each with a short description."""
    from hyperfront import __version__

    yield "version of hyperfront", __version__
    yield "version of PyTorch", torch.__version__
    yield from _flat(job.config())
    for name in ("train", "val"):
        if name in job.problem.sources:
            yield f"{name} data", _data(job.problem.sources[name])
    yield "precision of the weights", str(next(job.model.parameters()).dtype)
    yield "folder", None if job.folder is None else str(job.folder.path.absolute())


def _flat(settings: Mapping[str, Any], before: str = "") -> Iterator[tuple[str, Any]]:
    for key, value in settings.items():
        if isinstance(value, Mapping):
            yield from _flat(value, f"{before}{key}.")
        else:
            yield before + key, describe(value)


def _data(source: Source) -> str:
    """Describe data in memory by a checksum. The batches of a loader are compared when they come."""
    return checksum(source.data) if isinstance(source, TensorSource) else type(source).__name__


def checksum(batch: Batch) -> str:
    """Compute the checksum of all tensors of a batch.

    >>> checksum((torch.zeros(2), torch.ones(1)))
    '954b164e'
    """
    return checksums.of_text(" ".join(checksums.of_tensor(_sample(tensor).cpu()) for tensor in tensors(batch)))


def _sample(tensor: Tensor) -> Tensor:
    return tensor if tensor.nbytes <= READ or not tensor.ndim else tensor[:: -(-tensor.nbytes // READ)]


def check_shares(job: Job) -> None:
    """Raise an error if the processes cannot share the steps of this job."""
    if not job.problem.has_data:
        raise ProblemError(
            "a problem without data has no rows to share among processes",
            got=f"a job of {job.team.size} processes",
            fix="start it without torchrun",
        )
    if job.problem.lesson is not None:
        raise ProblemError(
            "a student learns from its teacher in one process",
            got=f"a job of {job.team.size} processes",
            fix="start it without torchrun",
        )
    target = job.model.target
    if target.batchnorm == "shared" and any(isinstance(layer, _BatchNorm) for layer in target.skeleton.modules()):
        raise ProblemError(
            'batchnorm="shared" keeps running averages, which every process would have of its own rows',
            fix='hyperfront.wrap(..., batchnorm="grid"), the default',
        )
    for name in ("train", "val"):
        given = job.problem.sources.get(name)
        if isinstance(given, LoaderSource) and (sampler := _sharing_sampler(given)):
            raise ProblemError(
                "the loader gives every process other rows",
                got=f"{sampler} in the loader of {name} data",
                expected="the same loader on all ranks: every rank takes its rows of each training batch by itself, "
                "and measures some rays on all rows of validation data",
                fix="DataLoader(dataset, batch_size=..., shuffle=True) with the batch size of the whole job",
            )
    _check_sizes(job)


def _check_sizes(job: Job) -> None:
    """Raise an error if a batch cannot be shared among the processes, their rays and their micro-batches."""
    source, settings = job.problem.train.source, job.settings
    size = source.batch_size if isinstance(source, LoaderSource) else settings.batch_size
    parts = (1 if settings.share_batch else settings.rays_per_step) * job.team.size
    if size is not None and size % parts:
        rays = f", {settings.rays_per_step} rays that split it" if parts > job.team.size else ""
        raise ProblemError(
            "the processes cannot share a batch evenly",
            got=f"batches of {size} rows{rays} and {job.team.size} processes",
            expected=f"a multiple of {parts} rows",
            fix=f"a batch size of {parts * max(1, round(size / parts))}, or another number of processes",
        )
    if settings.accumulate > 1 and not batches_are_even(source):
        raise ProblemError(
            "micro-batches of several processes need batches of one size, known before the first one",
            got=f"accumulate={settings.accumulate}, {job.team.size} processes and a {type(source.loader).__name__}"
            if isinstance(source, LoaderSource)
            else None,
            expected="tensors, or a DataLoader with a batch_size",
            fix="DataLoader(dataset, batch_size=...), or accumulate=1",
        )
    if settings.accumulate > 1 and size is not None and size // parts < settings.accumulate:
        raise ProblemError(
            "a process has fewer rows for a ray than micro-batches",
            got=f"{size // parts} of {size} rows for accumulate={settings.accumulate}",
            fix="a larger batch, fewer processes or rays, or a smaller accumulate=",
        )


def _sharing_sampler(source: LoaderSource) -> str | None:
    """Name the sampler of a loader that takes the rows of its rank, as PyTorch's and accelerate's do."""
    batches = getattr(source.loader, "batch_sampler", None)
    for found in (getattr(source.loader, "sampler", None), batches, getattr(batches, "sampler", None)):
        for names in (("num_replicas", "rank"), ("num_processes", "process_index")):
            if all(hasattr(found, name) for name in names):
                return type(found).__name__
    return None


def check_place(job: Job, state: TrainingState) -> None:
    """Raise an error that names the rank, if a rank does not see the run folder, or is at another step."""
    team, position = job.team, state.position
    if team.alone or job.folder is None:
        return
    places = team.gather((job.folder.config.exists(), position.epoch, position.step))
    for rank, place in enumerate(places):
        if place != places[0]:
            seen, epoch, step = place
            raise HyperfrontError(
                f"rank {rank} does not see the files of rank 0",
                got=f"{job.folder.path.absolute()} {f'at epoch {epoch}, step {step}' if seen else 'without a run'}",
                expected=f"a folder that all machines of the job share, at epoch {places[0][1]}, step {places[0][2]}",
                fix="name a folder on a shared file system in out=",
            )


def check_weights(job: Job, epoch: int) -> None:
    """Raise an error that names the rank, if a rank has other weights than rank 0 after an epoch, as with another
    optimizer; GPUs of different kinds may round differently."""
    if job.team.alone:
        return
    names, parameters = zip(*job.model.named_parameters())
    norms = torch.stack([p.detach().double().norm() for p in parameters]).cpu()
    first, *others = job.team.gather(norms)
    for rank, other in enumerate(others, 1):
        apart = (other - first).abs() > ROUNDED * first.clamp_min(1e-12)
        if apart.any():
            worst = int((other - first).abs().argmax())
            raise HyperfrontError(
                f"rank {rank} has other weights than rank 0 after epoch {epoch}",
                got=f"{names[worst]} with the norm {float(other[worst]):.8g}",
                expected=f"the norm {float(first[worst]):.8g}",
                fix="make the same optimizer and schedule on every rank, and change no weights beside them",
            )


def _short(value: Any) -> str:
    text = str(value)
    return text if len(text) <= 60 else f"{text[:57]}..."
