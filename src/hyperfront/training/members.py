"""Members: several models of a front, trained one after the other, and their ensemble."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch

from hyperfront.errors import CheckpointError, HyperfrontError, check_number
from hyperfront.front import alignment, evaluate
from hyperfront.model import ParetoModel
from hyperfront.model.averaged import words_of
from hyperfront.model.ensemble import ensemble
from hyperfront.model.expected import kind_of
from hyperfront.problem import Problem
from hyperfront.storage import files
from hyperfront.training.runs import Run, RunFolder


def fit_members(
    fit_one: Callable[..., Run],
    make: Callable[[], ParetoModel],
    problem: Problem,
    *,
    members: int,
    average: str | Sequence[str] | None,
    align: bool,
    convention: str,
    seed: int,
    out: str | Path | None,
    **options: Any,
) -> Run:
    """Train ``members`` models by ``fit_one``, member ``k`` with the seed ``seed + k``, and return their ensemble.

    Each member has its own folder in ``out``, so that a run resumes with the member at which it stopped. The ensemble
    is aligned instead of its members.
    """
    check_number("members", members, 1, whole=True)
    check_number("seed", seed, 0, 2**64 - members, whole=True)
    if average is None:
        raise HyperfrontError("members need average=", expected='"values", "softmax" or "sigmoid"')
    words_of(average)
    if isinstance(make, torch.nn.Module) or not callable(make):
        raise HyperfrontError(
            "members start from different weights, so fit makes each of them",
            got=kind_of(make),
            expected="a function that makes a model",
            fix="fit(lambda: hyperfront.wrap(Net(), objectives), ..., members=4)",
        )
    if align:
        alignment.check_convention(convention)
        problem.split("val")
    folder, runs = None if out is None else RunFolder(files.as_path(out)), []
    if folder is not None and folder.config.exists():
        raise CheckpointError(
            "the folder holds a run of one model, whose best weights an ensemble would replace",
            got=folder.path,
            fix="another folder for out=",
        )
    for number in range(members):
        with torch.random.fork_rng():
            torch.manual_seed(seed + number)
            model = make()
        own = None if folder is None else folder.path / f"member-{number}"
        runs.append(fit_one(model, problem, seed=seed + number, out=own, align=False, **options))
    whole = ensemble([run.model for run in runs], average=average)
    batch = {"batch_size": options["batch_size"]} if options["batch_size"] else {}
    if align:
        alignment.align(whole, problem.val, **batch)
    front = None if runs[0].front is None else evaluate(whole, problem.val, runs[0].front.rays, **batch)
    if folder is not None:
        whole.save(folder.best)
        if front is not None:
            front.save(folder.front)
    history = list(itertools.chain.from_iterable(run.history for run in runs))
    return Run(model=whole, front=front, history=history, folder=folder)
