"""Hyper-parameters by the paper's protocol (section 5, "Hyperparameter tuning"), with optuna.

- A hypernetwork gets the settings with the best validation hypervolume, one number to maximize.
- One model per ray is trained at the central ray only, since all rays would be too expensive. Each configuration gives
  a point of validation losses; dominated points are dropped, and of the rest the most uniform wins.

Bad configurations are pruned (:mod:`hyperfront.comparison.pruning`). Trials are kept in a database (SQLite, or any
that optuna can use, also by many machines at once), so that a stopped study can be continued.
"""

from __future__ import annotations

import math
import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from hyperfront import indicators, preferences
from hyperfront.comparison.baselines import fit_stacked, with_references
from hyperfront.comparison.hypernetwork import fit_hypernetwork
from hyperfront.comparison.method import Method
from hyperfront.comparison.methods import find_method
from hyperfront.comparison.protocol import Protocol, with_settings
from hyperfront.comparison.pruning import STARTUP, WARMUP, BelowMedian, Dominated, load_optuna
from hyperfront.comparison.search import LEARNING_RATE, Space, check_search, sampler, suggest
from hyperfront.comparison.tuned import Tuned
from hyperfront.errors import HyperfrontError, LossError
from hyperfront.problem import Problem
from hyperfront.problem.recipe import Recipe
from hyperfront.solvers.names import make_solver
from hyperfront.storage.provenance import describe, refuse_difference
from hyperfront.training import Callback
from hyperfront.training.interrupt import stop_requests
from hyperfront.training.ranks import refuse_several

HEARTBEAT = 60
"""Seconds between signs of life of a trial; a trial whose process died is tried again."""


def tune(
    problem: Problem,
    method: str,
    protocol: Protocol,
    *,
    space: Space = LEARNING_RATE,
    trials: int | None = None,
    storage: str,
    seed: int = 0,
    callbacks: Sequence[Callback] = (),
    notify: Callable[[Any, Any], None] = lambda study, trial: None,
) -> Tuned:
    """Run trials until ``trials`` trials of the study in ``storage`` have ended, and return the best. The default is
    the size of the grid, or :data:`hyperfront.comparison.search.TRIALS`.

    ``callbacks`` are those of every training run; ``notify(study, trial)`` is called after each trial.
    """
    refuse_several("tune")
    optuna, trials = load_optuna(), check_search(problem, method, protocol, space=space, trials=trials, seed=seed)
    optuna.logging.set_verbosity(optuna.logging.ERROR)  # its log lines repeat what ``notify`` shows
    with stop_requests() as stop:  # a database may swallow Ctrl-C while it cleans up, so it is checked between trials
        study = _study(problem, method, protocol, space, storage, seed)
        train = Trials(problem, find_method(method), protocol, seed, callbacks).train

        def objective(trial: Any) -> Any:
            recipe = with_settings(protocol.recipe_of(method), suggest(trial, space))
            try:
                if stop.made:
                    raise stop.stopped()
                return train(trial, recipe)
            except LossError as error:  # a learning rate that is too high, for instance
                trial.set_user_attr("failed", error.what)
                raise optuna.TrialPruned(error.what) from None
            except optuna.TrialPruned:
                raise
            except BaseException:  # Ctrl-C, missing data, a full disk: no reason to reject these settings
                _put_back(study, trial)
                raise

        ended = (optuna.trial.TrialState.COMPLETE, optuna.trial.TrialState.PRUNED)
        if len(study.get_trials(deepcopy=False, states=ended)) < trials:
            enough = optuna.study.MaxTrialsCallback(trials, states=ended)
            study.optimize(objective, callbacks=[notify, enough])
    return _chosen(study, problem, protocol, method)


def _study(problem: Problem, method: str, protocol: Protocol, space: Space, storage: str, seed: int) -> Any:
    """The study in the database, which may already have trials with the same settings."""
    optuna, warmup = load_optuna(), math.ceil(WARMUP * protocol.recipe_of(method).epochs)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
        study = optuna.create_study(
            study_name="-".join([problem.name, protocol.preset, method]),
            storage=_storage(storage),
            sampler=sampler(space, seed),
            pruner=optuna.pruners.MedianPruner(STARTUP, warmup + 1),  # optuna counts from 0, epochs from 1
            directions=["maximize"] if find_method(method).hypernetwork else ["minimize"] * problem.m,
            load_if_exists=True,
        )
    search = {name: "{}..{}".format(*v) if isinstance(v, tuple) else v for name, v in space.items()}
    _check_study(study, protocol.settings(method) | {"seed": seed, "search": describe(search)})
    return study


def _storage(address: str, attempts: int = 10) -> Any:
    """The database of trials; a trial whose process died is tried again."""
    from sqlalchemy.exc import IntegrityError, ProgrammingError, SQLAlchemyError  # comes with optuna

    storages = load_optuna().storages
    again = storages.RetryHeartbeatStaleTrialCallback()
    try:
        return storages.RDBStorage(address, heartbeat_interval=HEARTBEAT, heartbeat_stale_trial_callback=again)
    except (ImportError, SQLAlchemyError) as error:
        if attempts > 1 and isinstance(error, IntegrityError | ProgrammingError):
            time.sleep(0.1)  # another process made the same table at this moment
            return _storage(address, attempts - 1)
        raise HyperfrontError(
            "the database of trials cannot be used",
            got=f"{address}: {str(error).splitlines()[0]}",
            expected="an address of SQLAlchemy, such as sqlite:///trials.db, and its driver",
            fix="check the address, and install the driver that it names",
        ) from None


def _put_back(study: Any, trial: Any) -> None:
    """Queue a stopped trial as the next one: with the same settings and the same place in a grid."""
    frozen, trials = study.get_trials(deepcopy=False)[trial.number], load_optuna().trial
    place = {key: value for key, value in frozen.system_attrs.items() if key in ("grid_id", "search_space")}
    study.add_trial(
        trials.create_trial(state=trials.TrialState.WAITING, system_attrs={"fixed_params": trial.params, **place})
    )


def _check_study(study: Any, settings: dict[str, Any]) -> None:
    """Raise an error if the study has trials with other settings, which cannot be compared."""
    stored, states = study.user_attrs.get("settings"), load_optuna().trial.TrialState
    if stored is None or not study.get_trials(deepcopy=False, states=(states.COMPLETE, states.PRUNED, states.RUNNING)):
        study.set_user_attr("settings", settings)
        return
    what, fix = "the study has trials with other settings", "use the same settings, another folder (--out) or database"
    refuse_difference(stored, settings, what=what, fix=fix)


@dataclass(frozen=True)
class Trials:
    """The trainings of a study: one method on one problem, with a recipe for each trial."""

    problem: Problem
    method: Method
    protocol: Protocol
    seed: int
    callbacks: Sequence[Callback]

    def train(self, trial: Any, recipe: Recipe) -> float | list[float]:
        """Train by the recipe, and return the value or values that the study optimizes."""
        return self._hypernetwork(trial, recipe) if self.method.hypernetwork else self._one_ray(trial, recipe)

    def _hypernetwork(self, trial: Any, recipe: Recipe) -> float:
        """The validation hypervolume that a hypernetwork reaches."""
        solver = make_solver(self.method.solver, dict(self.protocol.solver))
        options = self._options(BelowMedian(trial))
        run = fit_hypernetwork(self.problem, self.protocol.rays, solver, recipe, **options)
        return _note(trial, run.front, self.problem)

    def _one_ray(self, trial: Any, recipe: Recipe) -> list[float]:
        """The validation losses that one model reaches at the central ray."""
        solver = with_references(make_solver(self.method.solver), self.protocol.rays)
        options = self._options(Dominated(trial, math.ceil(WARMUP * recipe.epochs)))
        run = fit_stacked(self.problem, preferences.rays(1, self.problem.m), solver, recipe, **options)
        _note(trial, run.front, self.problem)
        return trial.user_attrs["losses"][0]

    def _options(self, pruning: Callback) -> dict[str, Any]:
        where = {"device": self.protocol.device, "engine": self.protocol.engine}
        return {**where, "seed": self.seed, "callbacks": [*self.callbacks, pruning]}


def _note(trial: Any, front: Any, problem: Problem) -> float:
    """Store losses, uniformity and hypervolume with the trial, and return the hypervolume."""
    trial.set_user_attr("losses", front.losses.tolist())
    trial.set_user_attr("uniformity", front.uniformity())
    trial.set_user_attr("hypervolume", indicators.hypervolume(front.losses, problem.reference or ()))
    return trial.user_attrs["hypervolume"]


def _chosen(study: Any, problem: Problem, protocol: Protocol, method: str) -> Tuned:
    complete = [trial for trial in study.get_trials(deepcopy=False) if trial.state.name == "COMPLETE"]
    if not complete:
        raise HyperfrontError("no trial was completed", fix="try more trials, or a smaller learning rate in --search")
    best = study.best_trial if find_method(method).hypernetwork else most_uniform(complete)
    ended = {"FAIL": "stopped"}  # such a trial was queued again
    states = [ended.get(trial.state.name, trial.state.name.lower()) for trial in study.get_trials(deepcopy=False)]
    return Tuned(
        problem=problem.name,
        preset=protocol.preset,
        method=method,
        settings=best.params,
        trials={state: states.count(state) for state in sorted(set(states))},
        made_with=protocol.settings(method),
        **{key: best.user_attrs[key] for key in ("hypervolume", "uniformity", "losses")},
    )


def most_uniform(trials: Sequence[Any]) -> Any:
    """Find the trial with the highest uniformity among the non-dominated trials."""
    losses = torch.tensor([trial.user_attrs["losses"][0] for trial in trials], dtype=torch.float64)
    good = [trial for trial, keep in zip(trials, indicators.nondominated(losses).tolist()) if keep]

    def uniformity(trial: Any) -> float:
        value = trial.user_attrs["uniformity"]
        return -math.inf if math.isnan(value) else value  # not defined where losses are negative

    return max(good, key=uniformity)
