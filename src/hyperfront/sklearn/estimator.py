"""The base of the estimators: fitting, the trade-off of predictions, selection, and files without pickle."""

from __future__ import annotations

import math
import warnings
from abc import ABC, abstractmethod
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Self

import numpy as np
import torch
from sklearn.base import BaseEstimator
from sklearn.exceptions import NotFittedError
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_consistent_length, column_or_1d
from torch import Tensor

from hyperfront.errors import HyperfrontError, SelectionError
from hyperfront.errors.signatures import checked
from hyperfront.front import Front, Selection, evaluate
from hyperfront.model import ParetoModel
from hyperfront.preferences import layout
from hyperfront.problem import Problem
from hyperfront.sklearn import files
from hyperfront.sklearn.inputs import inputs_of, kinds_of, sensitive_of
from hyperfront.tabular import near_constant, problem_of
from hyperfront.tabular.columns import Columns
from hyperfront.tabular.discovery import Wishes, discover
from hyperfront.tabular.kinds import Kind
from hyperfront.tabular.objectives import by_name
from hyperfront.tabular.prediction import outputs_of
from hyperfront.tabular.recipe import SOLVER, recipe_for
from hyperfront.tabular.schema import Task
from hyperfront.tabular.table import encode, take
from hyperfront.training import fit

TARGET = "y"
HELD_OUT = 50
"""From this many rows on, some are held out for validation."""


class UnfittedError(HyperfrontError, NotFittedError):
    """Raised for an estimator that needs ``fit`` first; scikit-learn knows it by its second base."""


class ParetoEstimator(BaseEstimator, ABC):
    """One fit learns every trade-off between the objectives; ``ray`` picks one when predicting."""

    def __init__(
        self,
        *,
        objectives: Sequence[str] | None = None,
        network: str = "mlp",
        steps: int | None = None,
        learning_rate: float | None = None,
        validation_fraction: float = 0.2,
        calibration_fraction: float = 0.0,
        rays: int = 25,
        ray: Sequence[float] | None = None,
        smallest_group: int = 30,
        random_state: Any = None,
    ):
        """Keep the parameters; ``fit`` checks them.

        Args:
            objectives: The names of the objectives.
            network: ``"mlp"``, ``"resnet"`` or ``"linear"``.
            steps: Training steps; by default as many as the rows need (:mod:`hyperfront.tabular.recipe`).
            learning_rate: The largest learning rate of Adam; by default that of the same recipe.
            validation_fraction: The share of rows that are held out to choose weights and to measure ``front_``.
                Tables with fewer than 50 rows have none.
            calibration_fraction: The share of rows that are set aside to certify limits,
                ``select(..., confidence=.95)``.
            rays: How many rays ``front_`` has.
            ray: The trade-off of ``predict``, one number for each objective, until ``select`` sets another one. By
                default all objectives have the same weight.
            smallest_group: The fewest rows of a group of ``sensitive_features``.
            random_state: Seed of the held-out rows, the weights and the steps.
        """
        self.objectives = objectives
        self.network = network
        self.steps = steps
        self.learning_rate = learning_rate
        self.validation_fraction = validation_fraction
        self.calibration_fraction = calibration_fraction
        self.rays = rays
        self.ray = ray
        self.smallest_group = smallest_group
        self.random_state = random_state

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()  # pyrefly: ignore[missing-attribute]
        tags.input_tags.allow_nan = True
        return tags

    @abstractmethod
    def _target(self, y: np.ndarray) -> tuple[np.ndarray, Task]:
        """Return the target as numbers or codes of classes, and the task."""

    def fit(self, X: Any, y: Any, sensitive_features: Any = None) -> Self:
        """Learn every trade-off. ``sensitive_features``, one value for each row or several columns, make groups."""
        if y is None:
            raise ValueError(f"{type(self).__name__} requires y to be passed, but the target y is None")
        inputs = inputs_of(self, X, reset=True)
        check_consistent_length(X, y)
        target, task = self._target(column_or_1d(y, warn=True))
        sensitive = sensitive_of(sensitive_features, X, {**inputs, TARGET: target})
        if TARGET in inputs:
            raise HyperfrontError("a column of X has the name of the target", got=TARGET, fix="rename the column")
        seed = int(check_random_state(self.random_state).randint(2**31 - 1))
        rows = self._split(target, task, seed)
        kinds: dict[str, Kind] = dict.fromkeys(sensitive, "ignore")
        kinds |= kinds_of(X, inputs)
        wishes = Wishes(
            TARGET,
            tuple(sensitive),
            kinds=kinds,
            task=task,
            smallest_group=self.smallest_group,
        )
        columns = {**inputs, **sensitive, TARGET: target}
        self.schema_, notes = discover(columns, wishes, rows["train"], [])
        if notes:
            warnings.warn("; ".join(notes), stacklevel=2)
        self.columns_ = list(inputs)
        splits = take(encode(self.schema_, columns), rows)
        self._train(splits, seed)
        return self

    def _split(self, target: np.ndarray, task: Task, seed: int) -> dict[str, np.ndarray]:
        """Hold out calibration rows, at random, and validation rows, the same share of each class; a small table has
        no validation rows."""
        count, share = len(target), self.calibration_fraction
        if not 0 <= self.validation_fraction < 1:
            raise ValueError(f"validation_fraction is {self.validation_fraction}, and must be from 0 to below 1")
        if not 0 <= share < 1 - self.validation_fraction:
            raise ValueError(f"calibration_fraction is {share}, and must be from 0 to below 1 - validation_fraction")
        order = np.random.RandomState(seed).permutation(count)
        calibration, order = np.split(order, [min(math.ceil(share * count), count - 2)])
        parts = {"calibration": np.sort(calibration)} if share else {}
        if count < HELD_OUT or not self.validation_fraction:
            return parts | {"train": np.sort(order)}
        if task != "regression":
            order = order[np.argsort(target[order], kind="stable")]
        every = max(2, round((1 - share) / self.validation_fraction))
        held = np.arange(len(order)) % every == every - 1
        return parts | {"train": np.sort(order[~held]), "val": np.sort(order[held])}

    def _train(self, splits: dict[str, tuple[Tensor, ...]], seed: int) -> None:
        self._rows = {name: rows for name, rows in splits.items() if name != "train" or "val" not in splits}
        made = self._problem({name: rows for name, rows in splits.items() if name != "calibration"})
        recipe = recipe_for(len(splits["train"][0]), steps=self.steps)
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            model = made.model()
        settings = recipe.hypernetwork(SOLVER)
        if self.learning_rate is not None:
            settings["lr"] = self.learning_rate
        rays = layout(self.rays, made.m, made.objectives)
        fit(model, made, **settings, validation_rays=rays, seed=seed, callbacks=[])
        self.model_: ParetoModel = model
        self._front: Front | None = self._measure()
        start = [1 / made.m] * made.m if self.ray is None else self.ray
        self.ray_: np.ndarray = model.check(start)[0].double().numpy()

    def _problem(self, splits: dict[str, tuple[Tensor, ...]]) -> Problem:
        return problem_of(self.schema_, by_name(self.schema_, self.objectives), splits, network=self.network)

    @property
    def front_(self) -> Front:
        """The losses and scores at ``rays`` rays, on the rows held out for validation (on all rows of a small table).

        It is measured again after the estimator was pickled or loaded.
        """
        self._check_fitted()
        if self._front is None:
            self._front = self._measure()
        return self._front

    def _measure(self) -> Front:
        split = "val" if "val" in self._rows else "train"
        made = self._problem({"train": self._rows[split], **self._rows})
        return evaluate(self.model_, made.split(split), layout(self.rays, made.m, made.objectives))

    @checked
    def select(self, **question: Any) -> Selection:
        """Find a trade-off as :meth:`hyperfront.Front.select` does; ``predict`` and ``score`` use it from now on.

        ``confidence=.95`` certifies its limits on the rows that ``calibration_fraction`` set aside.
        """
        self._check_fitted()
        if question.get("confidence") is not None and "calibration" not in self._rows:
            raise SelectionError(
                "no rows can certify limits: fit set none aside",
                got=f"{type(self).__name__}(calibration_fraction={self.calibration_fraction:g})",
                fix="calibration_fraction=0.2 and a new fit, or no confidence=",
            )
        choice = self.front_.select(**question)
        self.ray_ = choice.ray.double().numpy()
        if useless := near_constant(choice.values):
            warnings.warn(useless, stacklevel=2)
        return choice

    def _check_fitted(self) -> None:
        if not hasattr(self, "model_"):
            raise UnfittedError(f"this {type(self).__name__} is not fitted yet", fix="call fit(X, y) first")

    def _outputs(self, X: Any, ray: Any) -> Tensor:
        """The outputs of the network at a ray, in float64, so that a row's output does not depend on other rows."""
        self._check_fitted()
        columns: Columns = inputs_of(self, X, reset=False)
        wanted: Any = self.ray_ if ray is None else ray
        network = self.model_.at(wanted).double()
        return outputs_of(network, *self.schema_.encode(columns))

    def __getstate__(self) -> dict[str, Any]:
        state: dict[str, Any] = dict(super().__getstate__())
        return {**state, "_front": None} if "_front" in state else state

    @checked
    def save(self, path: str | Path) -> None:
        """Write the fitted estimator to a safetensors file, without pickle; :meth:`load` reads it."""
        self._check_fitted()
        files.save(self, Path(path))

    @classmethod
    @checked
    def load(cls, path: str | Path) -> Self:
        """Read an estimator that :meth:`save` wrote; nothing in the file is run."""
        return files.load(cls, Path(path))
