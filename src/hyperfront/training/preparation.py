"""The first part of ``fit``: the folder is locked, random numbers are seeded, and optimizer, state and engine made."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from typing import NamedTuple

import torch

from hyperfront.errors import HyperfrontError
from hyperfront.front.threads import few_for_small_work, work
from hyperfront.problem.sources import looking
from hyperfront.storage import locks
from hyperfront.storage.provenance import environment
from hyperfront.training.agreement import check_agreement, check_place
from hyperfront.training.checkpoints import Checkpoints
from hyperfront.training.deterministic import only_deterministic
from hyperfront.training.engines import Engine, make_engine
from hyperfront.training.epochs import Epochs
from hyperfront.training.job import Job
from hyperfront.training.precision import products
from hyperfront.training.ranks import follow_first
from hyperfront.training.restarts import job_mark
from hyperfront.training.shares import shared_problem
from hyperfront.training.state import TrainingState
from hyperfront.training.step import Step


class Prepared(NamedTuple):
    """The parts that the loop over the epochs needs."""

    epochs: Epochs
    engine: Engine
    checkpoints: Checkpoints


@contextmanager
def together(job: Job, resume: bool) -> Iterator[None]:
    """Enter the ``with`` block with all processes of the job, which must agree, and leave it with all of them."""
    check_agreement(job, resume)
    with ExitStack() as stack:
        with job.team.raising():
            stack.enter_context(_surroundings(job, resume))
        with few_for_small_work(job.model.device, lambda: multiply_adds(job)), _memory(job):
            yield
        job.team.gather(None)  # the files are complete when any process returns


@contextmanager
def _surroundings(job: Job, resume: bool) -> Iterator[None]:
    """Check and lock the folder, apply PyTorch's settings, and seed the random numbers within the ``with`` block."""
    device, folder = job.model.device, job.folder
    alone = locks.alone_in(folder.path) if folder and job.team.first else nullcontext()
    if job.team.first:
        job.check_folder(resume)
    generators = [device] if device.type == "cuda" else []
    with (
        alone,
        only_deterministic(job.settings.deterministic),
        products(job.settings.precision),
        torch.random.fork_rng(devices=generators),
    ):
        torch.manual_seed(job.settings.seed)
        yield


@contextmanager
def discarding(job: Job) -> Iterator[None]:
    """Remove the files of a run that fails before its first checkpoint."""
    try:
        yield
    except HyperfrontError:
        if job.folder and job.team.first:
            job.folder.discard()
        raise


def prepare(job: Job, engine: str, resume: bool) -> Prepared:
    """Make optimizer, state and engine of a new or resumed run; try out the first step of a new run."""
    model, problem, settings, folder = job.model, job.problem, job.settings, job.folder
    team = job.team
    if not team.alone:
        follow_first(model.state_dict().values())
    optimizer = settings.make_optimizer(model.parameters())
    steps = settings.epochs * problem.train.source.steps(settings.batch_size)
    lesson = problem.lesson
    if lesson is not None:
        lesson.teacher.ready(model, job.solver.convention)
    practice = problem if lesson is None else lesson.practice(problem)
    practice = practice if team.alone else shared_problem(practice)
    step = Step(model, practice, job.solver, share_batch=settings.share_batch and lesson is None)
    if settings.precision == "bf16":
        step.dtype = torch.bfloat16
    state = TrainingState(model, step, optimizer, settings.make_schedule(optimizer, steps))
    checkpoints = Checkpoints(folder, state, job.identity(), keep=job.keep, writes=team.first)
    for file in folder.temporary() if folder and team.first else ():
        file.unlink(missing_ok=True)
    for turn in (True, False) if resume else ():  # rank 0 first: it may repair files
        with team.raising():
            if team.first == turn:
                checkpoints.resume()
    epochs = Epochs(state, problem, job.preferences, settings, team)
    with team.raising():
        if state.position.epoch == state.position.step == 0:
            epochs.try_out()
        if folder and team.first and not folder.config.exists():
            mark = job_mark()
            folder.create(job.config(), environment(model.device) | ({"job": mark} if mark else {}))
    with discarding(job):
        check_place(job, state)
        return Prepared(epochs, make_engine(engine, epochs), checkpoints)


def multiply_adds(job: Job) -> float:
    """Count the multiply-adds of the forward passes of one step; 0 without data."""
    source, size, device = job.problem.train.source, job.settings.batch_size, job.model.device
    if not job.problem.has_data:
        return 0.0
    with looking(source, device):
        batch = next(source.epoch(size, torch.Generator().manual_seed(0), device, 0), None)
    return 0.0 if batch is None else work(job.model, job.problem.inputs(batch))


def _memory(job: Job) -> AbstractContextManager:
    """Recompute activations within the ``with`` block, if asked to."""
    if not job.settings.checkpoint_activations:
        return nullcontext()
    from hyperfront.training.recomputation import recomputing  # which few runs need

    return recomputing(job.model.target, job.model.device)
