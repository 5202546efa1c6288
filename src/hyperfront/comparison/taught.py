"""Methods with a teacher: models that learn from an ensemble of hypernetworks trained with LS.

=================== ==========================================================================================
``taught``          one hypernetwork, on the teacher's labels at its own rays
``taught-separate`` one model for each ray, each on the teacher's labels at its ray
``taught-plain``    one plain network, on the teacher's labels at the central ray, used at all rays
=================== ==========================================================================================

Their times include the teacher's. Which label belongs to which problem is an option:
``--options taught.average=sigmoid taught.label=2``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import torch

from hyperfront.comparison.baselines.per_ray import fit_stacked
from hyperfront.comparison.hypernetwork import fit_hypernetwork
from hyperfront.comparison.method import ComparisonJob, Method, Trained
from hyperfront.errors import ProblemError
from hyperfront.front import evaluate
from hyperfront.model.ensemble import ensemble
from hyperfront.problem import Problem
from hyperfront.problem.lesson import taught
from hyperfront.problem.mixup import Mixup
from hyperfront.solvers import LS
from hyperfront.training.runs import Run, RunFolder

if TYPE_CHECKING:
    from hyperfront.comparison.protocol import Protocol


@dataclass(frozen=True)
class Teaching:
    """The teacher of a method, and how it labels."""

    members: int = 4
    """Hypernetworks in the ensemble."""
    average: str = "values"
    """The numbers that the ensemble averages and that become labels: ``values``, ``softmax`` or ``sigmoid``."""
    label: int = 1
    """The entry of a batch that holds the labels."""
    mixup: bool = True
    """Draw inputs between training rows; otherwise the rows themselves."""


def _lesson(job: ComparisonJob) -> tuple[Problem, float]:
    """Train the teacher, and return the problem with its labels and the seconds that the teacher took."""
    options, recipe, found = job.options, job.protocol.recipe_of("phn-ls"), []
    for number in range(options.members):
        fitting = job.fitting | {"seed": job.seed + 1000 * (number + 1), "align": False}
        fitting |= {"out": job.folder / f"member-{number}", "resume": True}
        found.append(fit_hypernetwork(job.problem, job.protocol.rays, LS(), recipe, **fitting))
    teacher = ensemble([run.model for run in found], average=options.average)
    draw = Mixup() if options.mixup else "rows"
    lesson = taught(job.problem, teacher, relabel=options.average, labels=options.label, draw=draw)
    return lesson, sum(record["seconds"] for run in found for record in run.history)


def _train(job: ComparisonJob, student: Callable[[ComparisonJob, Problem], Run]) -> Trained:
    lesson, before = _lesson(job)
    run = student(job, lesson)
    return run, {"training": before + sum(record["seconds"] for record in run.history), "teacher": before}


def _hypernetwork(job: ComparisonJob, lesson: Problem) -> Run:
    recipe, fitting = job.recipe, job.fitting | {"out": job.folder, "resume": True}
    return fit_hypernetwork(lesson, job.protocol.rays, LS(), recipe, **fitting)


def _separate(job: ComparisonJob, lesson: Problem) -> Run:
    return fit_stacked(lesson, job.protocol.rays, LS(), job.recipe, out=job.folder, resume=True, **job.fitting)


def _plain(job: ComparisonJob, lesson: Problem) -> Run:
    """Train one network; its point is that of every ray."""
    central = torch.full((1, lesson.m), 1 / lesson.m, dtype=torch.float64)
    run = fit_stacked(lesson, central, LS(), job.recipe, out=job.folder, resume=True, **job.fitting)
    front = evaluate(run.model, lesson.val, job.protocol.rays, batch_size=job.recipe.batch_size)
    return Run(model=run.model, front=front, history=run.history, folder=run.folder)


def _check(method: Method, protocol: Protocol, problem: Problem) -> None:
    options = protocol.options_of(method.name)
    if not problem.has_data:
        raise ProblemError(f"{method.name} needs data: an analytic problem has no labels that a teacher could give")
    if not isinstance(options.members, int) or options.members < 1:
        raise ProblemError("a teacher needs members", got=f"members={options.members}", expected="1 or more")


def _spent(job: ComparisonJob) -> float:
    return sum(RunFolder(path).seconds() for path in (job.folder, *job.folder.glob("member-*")))


_COMMON = {
    "family": "taught",
    "summary": "learn from an ensemble",
    "options": Teaching,
    "check": _check,
    "spent": _spent,
}
METHODS = (
    Method(
        name="taught",
        label="PHN-LS, taught",
        train=partial(_train, student=_hypernetwork),
        hypernetwork=True,
        starts_from="phn-ls",
        **_COMMON,
    ),
    Method(
        name="taught-separate",
        label="LS, taught",
        train=partial(_train, student=_separate),
        starts_from="ls",
        **_COMMON,
    ),
    Method(
        name="taught-plain",
        label="one network, taught",
        train=partial(_train, student=_plain),
        starts_from="ls",
        **_COMMON,
    ),
)
"""They take the settings that were tuned for ``phn-ls`` and ``ls``."""
