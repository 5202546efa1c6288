"""Every method by its name, from a plan to a result.

================================ ==============================================================================
``phn-SOLVER``                   a Pareto hypernetwork trained with that solver
``ls``, ``epo``, ``pmtl``, ...   one model per ray, with any solver
``cpmtl``                        expansion from the models of ``ls``
``nsga3``, ``moead``             evolutionary algorithms
``single``                       one model per objective: the ideal point
================================ ==============================================================================
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, fields, replace
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from hyperfront.comparison.baselines import (
    Budget,
    Expansion,
    along_rays,
    asked,
    evolve,
    fit_one_by_one,
    fit_single_tasks,
    fit_stacked,
    seconds_so_far,
    separate_models,
)
from hyperfront.comparison.baselines.evolutionary import ALGORITHMS
from hyperfront.comparison.baselines.per_ray import with_references
from hyperfront.comparison.result import Result, measure, rounded
from hyperfront.errors import BusyError, unknown_name
from hyperfront.front import evaluate
from hyperfront.preferences import rays as laid_out
from hyperfront.problem import Problem
from hyperfront.problem.recipe import Recipe
from hyperfront.solvers import Solver
from hyperfront.solvers.names import SOLVERS, make_solver
from hyperfront.storage import checkpoint, locks
from hyperfront.storage.provenance import describe
from hyperfront.training import Progress, fit
from hyperfront.training.engines import ENGINES
from hyperfront.training.fitting import settings_of
from hyperfront.training.runs import Run, RunFolder
from hyperfront.training.validation import calibrate

EVOLUTIONARY = ALGORITHMS
PER_RAY = tuple(solver for solver in SOLVERS if solver != "hvmax")  # which makes one front of several rays
ONE_PER_RAY = ("per-ray", "cpmtl")
"""Families of methods that train a model for each ray."""
NAMES = (*(f"phn-{solver}" for solver in SOLVERS), *PER_RAY, "cpmtl", *EVOLUTIONARY, "single")


@dataclass(frozen=True)
class Plan:
    """What all methods of a comparison share."""

    preset: str
    recipe: Recipe
    rays: Tensor
    """``[R, m]``, in the convention ``inverse``."""
    tuned: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """Settings of methods by name that replace those of the recipe."""
    solver: Mapping[str, Any] = field(default_factory=dict)
    """Options of the solver of hypernetworks."""
    expansion: Expansion = field(default_factory=Expansion)
    budget: Budget = field(default_factory=Budget)
    one_by_one: bool = False
    """Train one model per ray one by one, instead of all at once."""
    device: str = "cpu"
    engine: str = "auto"

    def recipe_of(self, method: str) -> Recipe:
        """The recipe that a method trains by; CPMTL begins with the models of LS."""
        recipe = self.recipe if method.startswith("phn-") else self.recipe.for_separate_models()
        return with_settings(recipe, self.tuned.get(trained_as(method), {}))

    def check(self, method: str) -> None:
        """An error for settings that no training could have."""
        if self.engine not in ENGINES:
            raise unknown_name("engine", self.engine, ENGINES)
        if family(method) == "per-ray":
            with_references(make_solver(method), self.rays)
        recipe = self.recipe_of(method)
        settings_of(recipe.training() | {"rays_per_step": recipe.rays_per_step})

    def settings(self, method: str) -> dict[str, Any]:
        """All settings of a method, as its results keep them."""
        own: dict[str, Any] = {"rays": [rounded(ray) for ray in self.rays.tolist()]}
        if self.one_by_one and family(method) in ONE_PER_RAY:
            own["one_by_one"] = True  # the same models in another time
        if method == "cpmtl":
            own["expansion"] = asdict(self.expansion)
        elif method in EVOLUTIONARY:
            own["budget"] = asdict(self.budget)
        elif self.solver and family(method) == "phn":
            own["solver"] = dict(self.solver)
        return describe(asdict(self.recipe_of(method))) | own


def with_settings(recipe: Recipe, settings: Mapping[str, Any]) -> Recipe:
    """The recipe with some settings replaced; those that are no field of it are options of the model."""
    known = {item.name for item in fields(Recipe)}
    own: dict[str, Any] = {key: value for key, value in settings.items() if key in known}
    model = {key: value for key, value in settings.items() if key not in known}
    return replace(replace(recipe, model={**recipe.model, **model}), **own)


def check_method(name: str) -> str:
    """The name, or an error that suggests the nearest one."""
    if name not in NAMES:
        raise unknown_name("method", name, NAMES)
    return name


def family(name: str) -> str:
    """What kind of method it is.

    >>> family("phn-epo"), family("epo"), family("moead")
    ('phn', 'per-ray', 'evolutionary')
    """
    if name.startswith("phn-"):
        return "phn"
    if name in EVOLUTIONARY:
        return "evolutionary"
    return name if name in ("cpmtl", "single") else "per-ray"


def trained_as(name: str) -> str:
    """The method whose models it has: CPMTL begins with those of LS."""
    return "ls" if name == "cpmtl" else name


def run_method(name: str, plan: Plan, problem: Problem, *, seed: int, runs: Path, progress: bool = True) -> Result:
    """Train (or go on training) in a folder below ``runs``, and measure."""
    start, before = time.perf_counter(), _seconds_before(name, plan, runs, seed)
    train = TRAINERS[family(check_method(name))]
    run, more = train(name, plan, problem, seed, runs, [Progress()] if progress else [])
    seconds = {"total": time.perf_counter() - start + before, **more}
    return measure(
        run, problem, preset=plan.preset, solver=name.removeprefix("phn-"), seed=seed, settings=plan.settings(name),
        seconds=seconds, family=family(name),
    )  # fmt: skip


def _seconds_before(name: str, plan: Plan, runs: Path, seed: int) -> float:
    """Training time of earlier calls, and that of what CPMTL has expanded."""
    folder = runs / f"{trained_as(name)}-{seed}"
    training = sum(RunFolder(path).seconds() for path in (folder, *folder.glob("ray-*")))
    patches = [checkpoint.read(file)[1] for file in (runs / f"{name}-{seed}").glob("from-*/points.safetensors")]
    expanding = sum(patch["seconds"] for patch in patches if patch.get("settings") == plan.settings(name))
    return seconds_so_far(folder) + training + expanding


Trained = tuple[Run, dict[str, float]]
"""A run, and the seconds of parts of it by name."""


def fit_hypernetwork(
    problem: Problem, rays: Tensor, solver: Solver, recipe: Recipe, *, seed: int, **options: Any
) -> Run:
    """Train a hypernetwork by a recipe; ``options`` are those of :func:`hyperfront.fit`, and come before the recipe's.

    It is validated at ``rays [R, m]``, in the convention ``inverse``."""
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        model = problem.model(**recipe.model)
    settings = recipe.hypernetwork(solver) | {"validation_rays": asked(rays, solver), "seed": seed} | options
    return fit(model, problem, **settings)


def hypernetwork(name: str, plan: Plan, problem: Problem, seed: int, runs: Path, callbacks: list) -> Trained:
    options: dict[str, Any] = {"seed": seed, "device": plan.device, "engine": plan.engine, "callbacks": callbacks}
    options |= {"out": runs / f"{name}-{seed}", "resume": True}
    solver = make_solver(name.removeprefix("phn-"), dict(plan.solver))
    return fit_hypernetwork(problem, plan.rays, solver, plan.recipe_of(name), **options), {}


def per_ray(name: str, plan: Plan, problem: Problem, seed: int, runs: Path, callbacks: list) -> Trained:
    solver, recipe, folder = make_solver(name), plan.recipe_of(name), runs / f"{name}-{seed}"
    options: dict[str, Any] = {"seed": seed, "device": plan.device, "engine": plan.engine}
    if plan.one_by_one:
        return fit_one_by_one(problem, plan.rays, solver, recipe, out=folder, callbacks=callbacks, **options), {}
    options |= {"out": folder, "resume": True, "callbacks": callbacks}
    return fit_stacked(problem, plan.rays, solver, recipe, **options), {}


def expanded(name: str, plan: Plan, problem: Problem, seed: int, runs: Path, callbacks: list) -> Trained:
    base, _ = per_ray("ls", plan, problem, seed, runs, callbacks)
    starts, folder = base.model.hypernet(base.model.hypernet.knots).detach(), runs / f"{name}-{seed}"
    expand, settings = partial(plan.expansion.expand, base.model, problem), plan.settings(name)
    patches, busy = [], None
    with _bar(bool(callbacks), plan.expansion.steps * problem.m * len(plan.rays), "tangent") as bar:
        for number, start in enumerate(starts):
            own = folder / f"from-{number}"
            try:
                with locks.alone_in(own):
                    patches.append(_patch(own / "points.safetensors", start, settings, expand, bar))
            except BusyError as error:
                busy = error
    if busy:  # there may be something else to do until another process has finished that
        raise busy
    spent = sum(seconds for _, seconds in patches)
    theta = torch.cat([points for points, _ in patches])
    history = [*base.history, {"status": {}, "seconds": spent}]
    run = _as_run(problem, theta, laid_out(len(theta), problem.m), plan.recipe_of(name), history)
    return run, {"expansion": spent}


def _patch(
    file: Path,
    start: Tensor,
    settings: Mapping[str, Any],
    expand: Callable[[Tensor], Iterator[Tensor]],
    progress: Callable[[], Any],
) -> tuple[Tensor, float]:
    """All points that one solution expands to, and their seconds. Kept after each point: an interrupted call goes on
    with what was reached from the same weights."""
    points, before = start[None], 0.0
    if file.exists():
        tensors, document = checkpoint.read(file)
        known = tensors.get("points", start[:0])
        if document.get("settings") == settings and len(known) and torch.equal(known[0], start.cpu()):
            points, before = known.to(start), document["seconds"]
    began, seconds = time.perf_counter(), before
    for point in expand(points):
        points, seconds = torch.cat([points, point[None]]), before + time.perf_counter() - began
        checkpoint.write(file, {"points": points}, {"settings": settings, "seconds": seconds})
        progress()
    return points, seconds


def evolved(name: str, plan: Plan, problem: Problem, seed: int, runs: Path, callbacks: list) -> Trained:
    folder = runs / f"{name}-{seed}"
    with locks.alone_in(folder), _bar(bool(callbacks), plan.budget.generations, "generation") as bar:
        found = evolve(name, problem, plan.budget, seed=seed, device=plan.device, out=folder, progress=bar)
    theta = along_rays(problem, found.theta, plan.rays, device=plan.device)
    history = [{"status": {}, "seconds": found.seconds}]
    return _as_run(problem, theta.to(plan.device), plan.rays, plan.recipe_of(name), history), {}


def single_tasks(name: str, plan: Plan, problem: Problem, seed: int, runs: Path, callbacks: list) -> Trained:
    run = fit_single_tasks(
        problem, plan.recipe_of(name), seed=seed, out=runs / f"{name}-{seed}", resume=True, device=plan.device,
        engine=plan.engine, callbacks=callbacks,
    )  # fmt: skip
    return run, {}


TRAINERS: dict[str, Callable[..., Trained]] = {
    "phn": hypernetwork,
    "per-ray": per_ray,
    "cpmtl": expanded,
    "evolutionary": evolved,
    "single": single_tasks,
}


def _as_run(problem: Problem, theta: Tensor, rays: Tensor, recipe: Recipe, history: list) -> Run:
    """Models that were not made by :func:`hyperfront.fit`, as it would return them."""
    model = separate_models(problem, rays, theta).to(theta.device)
    model.record = dict(problem.identity or {})
    calibrate(model, problem, recipe.batch_size)
    front = evaluate(model.eval(), problem.val, rays, batch_size=recipe.batch_size)
    return Run(model=model, front=front, history=history, folder=None)


@contextmanager
def _bar(shown: bool, total: int, unit: str) -> Iterator[Callable[[], Any]]:
    from tqdm.auto import tqdm

    with tqdm(total=total, unit=unit, disable=None if shown else True, dynamic_ncols=True) as bar:
        yield bar.update
