"""Hyper-parameters by the paper's protocol (section 5, "Hyperparameter tuning"), with optuna.

- A hypernetwork: the settings with the best validation hypervolume, one number to maximize.
- One model per ray: all rays would be too expensive, so one ray, the central one. Each configuration gives a point of
  validation losses; dominated points are dropped, and of the rest the most uniform wins.

Configurations that do badly are pruned (:mod:`hyperfront.comparison.pruning`). Trials are kept in a data base (SQLite,
or any that optuna can use, also by many machines at once), so that a study that was stopped goes on.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch

from hyperfront import indicators
from hyperfront.comparison.baselines import fit_stacked, with_references
from hyperfront.comparison.methods import Plan, family, fit_hypernetwork, with_settings
from hyperfront.comparison.pruning import STARTUP, WARMUP, BelowMedian, Dominated, load_optuna
from hyperfront.comparison.search import LEARNING_RATE, Space, check_search, sampler, suggest
from hyperfront.errors import CheckpointError, HyperfrontError, LossError
from hyperfront.preferences import rays as laid_out
from hyperfront.problem import Problem
from hyperfront.problem.recipe import Recipe
from hyperfront.solvers.names import make_solver
from hyperfront.storage import files
from hyperfront.storage.provenance import describe, refuse_difference
from hyperfront.storage.schemas import respell, upgrade
from hyperfront.training import Callback
from hyperfront.training.interrupt import ctrl_c

FORMAT = "hyperfront-tuned"
STEPS = (respell,)
HEARTBEAT = 60
"""Seconds between signs of life of a trial; one that has died is tried again."""


@dataclass(frozen=True)
class Tuned:
    """The best settings of a method on a problem, and how they were found."""

    problem: str
    preset: str
    method: str
    settings: Mapping[str, Any]
    hypervolume: float | None
    """On the validation data; of a single point for one model per ray."""
    uniformity: float
    losses: list[list[float]]
    trials: Mapping[str, int]
    """How many ended how."""
    made_with: Mapping[str, Any] = field(default_factory=dict)
    """All settings of the trials, before those that were searched."""

    def save(self, path: Path) -> None:
        files.write_json(path, {"format": FORMAT, "schema": len(STEPS) + 1, **asdict(self)})

    @classmethod
    def load(cls, path: Path) -> Tuned:
        document = files.read_json(path)
        try:
            document = upgrade(document, STEPS, path)
            if document.pop("format") != FORMAT or not document.pop("schema"):
                raise KeyError("format")
            return cls(**document)
        except (KeyError, TypeError) as error:
            raise CheckpointError("the file holds no tuned settings", got=f"{path}: {error!r}") from None


def tune(
    problem: Problem,
    method: str,
    plan: Plan,
    *,
    space: Space = LEARNING_RATE,
    trials: int | None = None,
    storage: str,
    seed: int = 0,
    callbacks: Sequence[Callback] = (),
    notify: Callable[[Any, Any], None] = lambda study, trial: None,
) -> Tuned:
    """Run trials until the study in ``storage`` has ``trials`` that ended, and return the best. Without a number, as
    many as a grid has, or :data:`hyperfront.comparison.search.TRIALS`.

    ``callbacks`` are those of every training run; ``notify(study, trial)`` is called after each trial.
    """
    optuna, trials = load_optuna(), check_search(problem, method, plan, space=space, trials=trials, seed=seed)
    optuna.logging.set_verbosity(optuna.logging.ERROR)  # its own log lines repeat what ``notify`` is told
    with ctrl_c() as stop:  # a data base swallows what is raised while it cleans up: looked at between trials
        study = _study(problem, method, plan, space, storage, seed)

        def objective(trial: Any) -> Any:
            recipe = with_settings(plan.recipe_of(method), suggest(trial, space))
            try:
                if stop.made:
                    raise KeyboardInterrupt
                trial_of = _one_ray if family(method) == "per-ray" else _hypernetwork
                return trial_of(trial, method, plan, problem, recipe, seed, callbacks)
            except LossError as error:  # a learning rate that is too high, for instance
                trial.set_user_attr("failed", error.what)
                raise optuna.TrialPruned(error.what) from None
            except optuna.TrialPruned:
                raise
            except BaseException:  # Ctrl-C, missing data, a full disk: says nothing about these settings
                _put_back(study, trial)
                raise

        ended = (optuna.trial.TrialState.COMPLETE, optuna.trial.TrialState.PRUNED)
        if len(study.get_trials(deepcopy=False, states=ended)) < trials:
            enough = optuna.study.MaxTrialsCallback(trials, states=ended)
            study.optimize(objective, callbacks=[notify, enough])
    return _chosen(study, problem, plan, method)


def _study(problem: Problem, method: str, plan: Plan, space: Space, storage: str, seed: int) -> Any:
    """The study in the data base, which may have trials already, of the same settings."""
    optuna, warmup = load_optuna(), math.ceil(WARMUP * plan.recipe_of(method).epochs)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
        study = optuna.create_study(
            study_name="-".join([problem.name, plan.preset, method]),
            storage=_storage(storage),
            sampler=sampler(space, seed),
            pruner=optuna.pruners.MedianPruner(STARTUP, warmup + 1),  # which it counts from 0, and epochs are from 1
            directions=["minimize"] * problem.m if family(method) == "per-ray" else ["maximize"],
            load_if_exists=True,
        )
    search = {name: "{}..{}".format(*v) if isinstance(v, tuple) else v for name, v in space.items()}
    _check_study(study, plan.settings(method) | {"seed": seed, "search": describe(search)})
    return study


def _storage(address: str) -> Any:
    """The data base of trials; those whose process died are tried again."""
    from sqlalchemy.exc import SQLAlchemyError  # comes with optuna

    storages = load_optuna().storages
    again = storages.RetryHeartbeatStaleTrialCallback()
    try:
        return storages.RDBStorage(address, heartbeat_interval=HEARTBEAT, heartbeat_stale_trial_callback=again)
    except (ImportError, SQLAlchemyError) as error:
        raise HyperfrontError(
            "the data base of trials cannot be used",
            got=f"{address}: {str(error).splitlines()[0]}",
            expected="an address of SQLAlchemy, such as sqlite:///trials.db, and its driver",
            fix="check the address, and install the driver that it names",
        ) from None


def _put_back(study: Any, trial: Any) -> None:
    """A trial that was stopped is the next one to be run: the same settings, the same place of a grid."""
    frozen, trials = study.get_trials(deepcopy=False)[trial.number], load_optuna().trial
    place = {key: value for key, value in frozen.system_attrs.items() if key in ("grid_id", "search_space")}
    study.add_trial(
        trials.create_trial(state=trials.TrialState.WAITING, system_attrs={"fixed_params": trial.params, **place})
    )


def _check_study(study: Any, settings: dict[str, Any]) -> None:
    """Trials of other settings cannot be compared with these."""
    stored, states = study.user_attrs.get("settings"), load_optuna().trial.TrialState
    if stored is None or not study.get_trials(deepcopy=False, states=(states.COMPLETE, states.PRUNED, states.RUNNING)):
        study.set_user_attr("settings", settings)
        return
    what, fix = "the study has trials with other settings", "the same settings, or another folder (--out) or data base"
    refuse_difference(stored, settings, what=what, fix=fix)


def _hypernetwork(
    trial: Any, method: str, plan: Plan, problem: Problem, recipe: Recipe, seed: int, callbacks: Sequence[Callback]
) -> float:
    """The validation hypervolume that a hypernetwork reaches."""
    options = {"device": plan.device, "engine": plan.engine, "callbacks": [*callbacks, BelowMedian(trial)]}
    solver = make_solver(method.removeprefix("phn-"), dict(plan.solver))
    run = fit_hypernetwork(problem, plan.rays, solver, recipe, seed=seed, **options)
    return _note(trial, run.front, problem)


def _one_ray(
    trial: Any, method: str, plan: Plan, problem: Problem, recipe: Recipe, seed: int, callbacks: Sequence[Callback]
) -> list[float]:
    """The validation losses that one model reaches at the central ray."""
    solver = with_references(make_solver(method), plan.rays)
    options = {"device": plan.device, "engine": plan.engine, "seed": seed}
    watching = [*callbacks, Dominated(trial, math.ceil(WARMUP * recipe.epochs))]
    run = fit_stacked(problem, laid_out(1, problem.m), solver, recipe, callbacks=watching, **options)
    _note(trial, run.front, problem)
    return trial.user_attrs["losses"][0]


def _note(trial: Any, front: Any, problem: Problem) -> float:
    """Keep what was reached with the trial; the hypervolume."""
    trial.set_user_attr("losses", front.losses.tolist())
    trial.set_user_attr("uniformity", front.uniformity())
    trial.set_user_attr("hypervolume", indicators.hypervolume(front.losses, problem.reference or ()))
    return trial.user_attrs["hypervolume"]


def _chosen(study: Any, problem: Problem, plan: Plan, method: str) -> Tuned:
    complete = [trial for trial in study.get_trials(deepcopy=False) if trial.state.name == "COMPLETE"]
    if not complete:
        raise HyperfrontError("no trial came to its end", fix="more trials, or a smaller learning rate in --search")
    best = most_uniform(complete) if family(method) == "per-ray" else study.best_trial
    ended = {"FAIL": "stopped"}  # and put back, to be run again
    states = [ended.get(trial.state.name, trial.state.name.lower()) for trial in study.get_trials(deepcopy=False)]
    return Tuned(
        problem=problem.name,
        preset=plan.preset,
        method=method,
        settings=best.params,
        trials={state: states.count(state) for state in sorted(set(states))},
        made_with=plan.settings(method),
        **{key: best.user_attrs[key] for key in ("hypervolume", "uniformity", "losses")},
    )


def most_uniform(trials: Sequence[Any]) -> Any:
    """Of the trials whose losses no other's dominate, the one with the highest uniformity."""
    losses = torch.tensor([trial.user_attrs["losses"][0] for trial in trials], dtype=torch.float64)
    good = [trial for trial, keep in zip(trials, indicators.nondominated(losses).tolist()) if keep]
    return max(good, key=lambda trial: trial.user_attrs["uniformity"])
