"""One model per ray: the same solvers, the same step, the target's own weights instead of a hypernetwork.

:func:`fit_stacked` trains all models at once: their weights are the rows of a table
(:class:`hyperfront.model.hypernets.SeparateHypernet`), and a step takes the gradients of all rows under ``vmap``. All
models get the same batch, as each would if it were trained alone. :func:`fit_one_by_one` trains one model after the
other. Both end at the same weights up to rounding, and up to dropout, which draws different numbers; they differ in
time.

Rays are given in the convention ``inverse`` (``r_1 l_1 = ... = r_m l_m``), so that all methods are asked for the same
points. A solver of directions gets the reciprocals, and linear scalarization takes the rays as loss weights.
"""

from __future__ import annotations

import itertools
import tempfile
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from hyperfront import indicators
from hyperfront.comparison.baselines.separate import as_run, asked, separate_models
from hyperfront.comparison.baselines.starts import starts
from hyperfront.comparison.method import ComparisonJob, Method, Trained
from hyperfront.errors import RayError
from hyperfront.model import ParetoModel
from hyperfront.preferences import InTurn
from hyperfront.problem import Problem
from hyperfront.problem.recipe import Recipe
from hyperfront.solvers import Solver
from hyperfront.solvers.names import SOLVERS, make_solver
from hyperfront.storage import checkpoint
from hyperfront.training import Callback, Progress, fit
from hyperfront.training.refusals import check_solver
from hyperfront.training.runs import Run, RunFolder

if TYPE_CHECKING:
    from hyperfront.comparison.protocol import Protocol

SEPARATE = frozenset({"batch_size", "epochs", "lr", "schedule", "warmup"})
"""Settings of a recipe that apply to separate models, and that `tune` can search."""


def fit_stacked(
    problem: Problem, rays: Tensor, solver: Solver, recipe: Recipe, *, seed: int = 0, **options: Any
) -> Run:
    """Train one model for each of ``rays [R, m]``, all at once; ``options`` are passed to :func:`hyperfront.fit`.

    As for a hypernetwork, the weights with the best validation hypervolume of all models together are kept.
    """
    solver, rays = _checked(solver, rays)
    return _fit(
        separate_models(problem, rays, starts(problem, len(rays), seed)), problem, solver, recipe, seed, options
    )


def fit_one_by_one(
    problem: Problem,
    rays: Tensor,
    solver: Solver,
    recipe: Recipe,
    *,
    seed: int = 0,
    out: str | Path | None = None,
    callbacks: Sequence[Callback] | None = None,
    optimizer: Callable[[Iterable[nn.Parameter]], Optimizer] | None = None,
    device: str | torch.device | None = None,
    engine: str = "auto",
) -> Run:
    """Train the same models one after the other; with ``out``, an interrupted call continues.

    A model's weights at every validation are kept (in ``out``, or in a temporary folder) until all models are trained,
    since the epoch is chosen by the hypervolume of all models together. The history lists one model after the other.
    """
    solver, rays = _checked(solver, rays)
    theta, histories = starts(problem, len(rays), seed), []
    with tempfile.TemporaryDirectory() as temporary:
        folders = [RunFolder(Path(out or temporary) / f"ray-{number}") for number in range(len(rays))]
        for folder, ray, start in zip(folders, rays, theta):
            model = separate_models(problem, ray[None], start[None])
            watching = [_Keep(model, folder.path), *([Progress()] if callbacks is None else callbacks)]
            options = {"optimizer": optimizer, "device": device, "engine": engine, "callbacks": watching}
            options |= {"out": folder.path, "resume": True}
            run = _fit(model, problem, solver, recipe, seed, options)
            histories.append(run.history)
        epoch = _best_epoch(histories, problem)
        theta = torch.cat([checkpoint.read(_Keep.file(folder.path, epoch))[0]["theta"] for folder in folders])
    history = list(itertools.chain.from_iterable(histories))
    together = as_run(problem, theta.to(run.model.device), rays, recipe, history, record=run.model.record)
    return replace(together, folder=RunFolder(Path(out)) if out else None)


def _checked(solver: Solver, rays: Tensor) -> tuple[Solver, Tensor]:
    """Give the solver the reference rays that it needs, and convert the rays to its convention."""
    if not len(rays):
        raise RayError("there are no rays to train models for")
    return with_references(check_solver(solver), rays), asked(rays, solver)


def _fit(
    model: ParetoModel, problem: Problem, solver: Solver, recipe: Recipe, seed: int, options: dict[str, Any]
) -> Run:
    rays = torch.tensor(model.hypernet.options()["rays"], dtype=torch.float64)
    return fit(
        model,
        problem,
        solver=solver,
        preferences=InTurn.of(rays),
        rays_per_step=len(rays),
        share_batch=True,
        validation_rays=rays,
        seed=seed,
        **recipe.training(),
        **options,
    )


def with_references(solver: Solver, rays: Tensor) -> Solver:
    """Give all rays to a solver that divides the loss space among them, also if only one of them is trained."""
    if solver.references is not None:
        return solver
    if len(rays) < 2:
        raise RayError(
            f"{type(solver).__name__} divides the loss space among rays",
            got="one ray",
            expected="two at least",
            fix=f"more rays, or leave {type(solver).__name__} out",
        )
    return replace(solver, references=tuple(map(tuple, asked(rays, solver).tolist())))  # pyrefly: ignore


class _Keep(Callback):
    """Writes the weights at every validation."""

    def __init__(self, model: ParetoModel, folder: Path):
        self.model, self.folder = model, folder

    @staticmethod
    def file(folder: Path, epoch: int) -> Path:
        return folder / f"epoch-{epoch}.safetensors"

    def epoch_ended(self, record: dict[str, Any]) -> None:
        if "validation" in record:
            checkpoint.write(self.file(self.folder, record["epoch"]), dict(self.model.hypernet.named_parameters()), {})


def _best_epoch(histories: Sequence[Sequence[dict[str, Any]]], problem: Problem) -> int:
    """The validated epoch with the best hypervolume of all models together; the last epoch without validation."""
    validated = [[record for record in history if "validation" in record] for history in histories]
    epochs = [record["epoch"] for record in validated[0]]
    reference = problem.reference
    if not problem.has_data or reference is None:
        return epochs[-1]
    together = [torch.tensor([r["validation"]["losses"][0] for r in same]) for same in zip(*validated)]
    volumes = [indicators.hypervolume(losses, reference) for losses in together]
    return epochs[max(range(len(epochs)), key=lambda i: (volumes[i], i))]  # the last of equally good ones, as in a run


def train_per_ray(job: ComparisonJob) -> Trained:
    """Train one model per ray with the solver of the method: all at once, or one by one if the protocol says so."""
    solver, rays = make_solver(job.method.solver), job.protocol.rays
    if job.protocol.one_by_one:
        return fit_one_by_one(job.problem, rays, solver, job.recipe, out=job.folder, **job.fitting), {}
    return fit_stacked(job.problem, rays, solver, job.recipe, out=job.folder, resume=True, **job.fitting), {}


def _check(method: Method, protocol: Protocol, problem: Problem) -> None:
    with_references(make_solver(method.solver), protocol.rays)


def solver_label(name: str) -> str:
    """The name of a solver in figures: the name of its class."""
    return type(make_solver(name)).__name__


def _solves_rays_apart(solver: Solver) -> bool:
    """Whether one ray can be solved without the losses of the others, once the solver knows all rays."""
    return not solver.joint or solver.references is None


METHODS = tuple(
    Method(
        name=solver,
        label=solver_label(solver),
        summary="one model per ray",
        family="per-ray",
        train=train_per_ray,
        solver=solver,
        one_per_ray=True,
        tunable=SEPARATE,
        check=_check,
    )
    for solver in SOLVERS
    if _solves_rays_apart(make_solver(solver))
)
