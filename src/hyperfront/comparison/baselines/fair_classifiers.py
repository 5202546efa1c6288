"""Methods of the package fairlearn, for tables with two classes and groups: many fair classifiers, one for each point.

================================ =================================================================================
``fairlearn-grid``               GridSearch: a classifier for each Lagrange multiplier of a grid
``fairlearn-exponentiated``      ExponentiatedGradient: a randomized classifier for each bound on the gaps
``fairlearn-threshold``          ThresholdOptimizer: thresholds by group on one classifier, for each bound on the gaps
================================ =================================================================================

GridSearch and ExponentiatedGradient are the reductions of Agarwal et al. (2018, "A reductions approach to fair
classification"); ThresholdOptimizer is that of Hardt et al. (2016, "Equality of opportunity in supervised learning").
Each trains scikit-learn's logistic regression, or with ``-boosting`` behind its name gradient-boosted trees, on the
rows and columns that a network gets. A comparison of ``R`` rays asks for ``R`` points, without a map from rays to
points. Bounds are spaced from 0 (exponentiated: from :data:`SMALLEST`) to :data:`LARGEST`. ThresholdOptimizer bounds
only one gap at a time: with two, the first point has no gap, and the bounds apply to one and the other in turn.

The constraint is that of the gaps among the objectives (:data:`CONSTRAINTS`). The last two methods draw decisions at
random and have no probabilities: their losses count a decision as a probability of :data:`CERTAIN`. The seed and the
features of a row fix its draw, so that a decision does not depend on the other rows of its batch. Thresholds know the
groups of the training rows; rows of no or another group get the decision of the classifier alone.
"""

from __future__ import annotations

import hashlib
import importlib.util
import logging
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from hyperfront.comparison.baselines.limits import at_least
from hyperfront.comparison.baselines.table_features import Features, rows_of
from hyperfront.comparison.method import ComparisonJob, Method, Trained
from hyperfront.errors import HyperfrontError, ProblemError
from hyperfront.front import evaluate
from hyperfront.model import wrap
from hyperfront.problem import Problem
from hyperfront.training.runs import Run

CONSTRAINTS: dict[frozenset[str], tuple[str, str]] = {
    frozenset({"fpr", "fnr"}): ("EqualizedOdds", "equalized_odds"),
    frozenset({"fpr"}): ("FalsePositiveRateParity", "false_positive_rate_parity"),
    frozenset({"fnr"}): ("TruePositiveRateParity", "true_positive_rate_parity"),
    frozenset({"selection"}): ("DemographicParity", "demographic_parity"),
}
"""The constraint of the reductions, and that of thresholds, by the rates whose gaps are objectives."""
RATES = {"fpr_gap": "fpr", "fp_penalty": "fpr", "fnr_gap": "fnr", "fn_penalty": "fnr", "selection_gap": "selection"}
SMALLEST, LARGEST = 0.005, 0.3
"""The smallest bound of ExponentiatedGradient, which needs a positive one, and the largest bound on a gap."""
CERTAIN = 0.99
Predict = Callable[[np.ndarray, np.ndarray], np.ndarray]
"""Probabilities ``[B]`` of the positive class for features ``[B, w]`` and groups ``[B]``."""
Points = Callable[..., Iterator[Predict]]
"""Trains classifiers, one for each point."""


@dataclass(frozen=True)
class Fair:
    """Settings of the classifiers and of fairlearn."""

    strength: float = 1.0
    """The inverse of the penalty on the weights of a logistic regression, scikit-learn's ``C``."""
    trees: int = 50
    leaves: int = 31
    rate: float = 0.1
    """The learning rate of boosting."""
    limit: float = 2.0
    """The largest Lagrange multiplier of the grid."""
    rounds: int = 20
    """The most rounds of ExponentiatedGradient for one point; each trains a classifier."""

    def __post_init__(self) -> None:
        at_least(self, strength=1e-9, trees=1, leaves=2, rate=1e-9, limit=1e-9, rounds=1)


class Classifiers(nn.Module):
    """Many classifiers as one module. Its only weight is the number of the classifier that predicts."""

    def __init__(self, features: Features, predict: Sequence[Predict]):
        super().__init__()
        self.features, self.predict = features, list(predict)
        self.number = nn.Parameter(torch.zeros(1))

    def forward(self, numbers: Tensor, categories: Tensor, group: Tensor) -> Tensor:
        """The logits ``[B]``."""
        chosen = self.predict[round(float(self.number))]
        found = chosen(self.features(numbers.cpu(), categories.cpu()), group.cpu().numpy())
        return torch.from_numpy(found).clamp(1e-6, 1 - 1e-6).logit().to(numbers)


def seen(problem: Problem) -> Problem:
    """The problem whose models get the group of a row too, which thresholds need."""
    return replace(problem, inputs=lambda batch: (batch[0], batch[1], batch[3]))


def train_fair(job: ComparisonJob, points: Points, boosting: bool) -> Trained:
    """Train a classifier for each point, and return them as a run."""
    problem, rays = seen(job.problem), job.protocol.rays
    start, predict = time.perf_counter(), []
    features = features_of(problem, boosting=boosting)
    with job.bar(len(rays), "classifier") as done:
        for each in classifiers(problem, features, points, count=len(rays), options=job.options, seed=job.seed):
            predict.append(each)
            done()
    seconds = time.perf_counter() - start
    model = wrap(
        Classifiers(features, predict), problem.objectives, hypernet="separate", rays=rays, batching="loop"
    ).requires_grad_(False)
    next(model.hypernet.parameters()).copy_(torch.arange(len(rays))[:, None])
    model.record = dict(problem.identity or {})
    front = evaluate(model.eval(), problem.val, rays, batch_size=job.recipe.batch_size)
    return Run(model=model, front=front, history=[{"status": {}, "seconds": seconds}], folder=None), {}


def features_of(problem: Problem, *, boosting: bool) -> Features:
    """The features of logistic regression or boosting, measured on the training rows."""
    numbers, categories, *_ = rows_of(problem)
    return Features.of(numbers, categories, codes=boosting)


def classifiers(
    problem: Problem, features: Features, points: Points, *, count: int, options: Fair, seed: int
) -> Iterator[Predict]:
    """Train ``count`` classifiers on the training rows; rows in no group are left out."""
    numbers, categories, label, group = rows_of(problem)
    inside = group > 0 if group.dtype != torch.bool else torch.ones_like(group)
    rows = features(numbers[inside], categories[inside]), label[inside].long().numpy(), group[inside].numpy()
    estimator = _estimator(options, features, seed)
    with _quiet():
        yield from points(estimator, rows, problem, count, options, seed)


# ---- points ----------------------------------------------------------------------------------------------------------


def grid(estimator: Any, rows: Any, problem: Problem, count: int, options: Fair, seed: int) -> Iterator[Predict]:
    from fairlearn import reductions  # pyrefly: ignore (an optional package)

    X, y, groups = rows
    moment = getattr(reductions, constraint(problem)[0])()
    search = reductions.GridSearch(estimator, moment, grid_size=count, grid_limit=options.limit)
    search.fit(X, y, sensitive_features=groups)
    for each in search.predictors_:
        yield partial(_probability, each)


def _exponentiated(
    estimator: Any, rows: Any, problem: Problem, count: int, options: Fair, seed: int
) -> Iterator[Predict]:
    from fairlearn import reductions  # pyrefly: ignore (an optional package)

    X, y, groups = rows
    for bound in np.geomspace(SMALLEST, LARGEST, count):
        moment = getattr(reductions, constraint(problem)[0])(difference_bound=bound)
        found = reductions.ExponentiatedGradient(estimator, moment, eps=bound, max_iter=options.rounds)
        found.fit(X, y, sensitive_features=groups)
        yield lambda X, _, found=found: _drawn(np.asarray(found._pmf_predict(X))[:, 1], X, seed)


def _threshold(estimator: Any, rows: Any, problem: Problem, count: int, options: Fair, seed: int) -> Iterator[Predict]:
    from fairlearn.postprocessing import ThresholdOptimizer  # pyrefly: ignore

    X, y, groups = rows
    estimator, exact, known = estimator.fit(X, y), constraint(problem)[1], np.unique(groups)
    parts = ("false_positive_rate_parity", "false_negative_rate_parity") if exact == "equalized_odds" else (exact,)
    for place, bound in enumerate(np.linspace(0, LARGEST, count)):
        found = ThresholdOptimizer(
            estimator=estimator,
            constraints=parts[place % len(parts)] if place else exact,  # pyrefly: ignore
            prefit=True,
            predict_method="predict_proba",
            tol=float(bound) or None,
        )
        found.fit(X, y, sensitive_features=groups)
        yield partial(_by_group, found, estimator, known, seed)


def _by_group(found: Any, estimator: Any, known: np.ndarray, seed: int, X: np.ndarray, group: np.ndarray) -> np.ndarray:
    """Decide by the thresholds of each row's group; rows of unknown groups by the classifier alone."""
    decided, inside = _certain(estimator.predict(X)), np.isin(group, known)
    if inside.any():
        chances = np.asarray(found._pmf_predict(X[inside], sensitive_features=group[inside]))[:, 1]
        decided[inside] = _drawn(chances, X[inside], seed)
    return decided


def _drawn(chances: np.ndarray, X: np.ndarray, seed: int) -> np.ndarray:
    """Draw decisions with these chances ``[B]``; seed and features of a row fix its draw."""
    key = seed.to_bytes(8, "little", signed=True)
    drawn = [hashlib.blake2b(row.tobytes(), digest_size=8, key=key).digest() for row in np.ascontiguousarray(X)]
    return _certain(np.frombuffer(b"".join(drawn), dtype="<u8") / 2**64 < chances)


def _probability(predictor: Any, X: np.ndarray, group: np.ndarray) -> np.ndarray:
    """The probability of the positive class; a classifier that has seen one class has no other."""
    found = predictor.predict_proba(X)
    return found[:, 1] if found.shape[1] == 2 else _certain(predictor.predict(X))


def _certain(decision: Any) -> np.ndarray:
    return np.where(np.asarray(decision, dtype=np.float64).reshape(-1) > 0, CERTAIN, 1 - CERTAIN)


def _estimator(options: Fair, features: Features, seed: int) -> Any:
    from sklearn.ensemble import HistGradientBoostingClassifier
    from sklearn.linear_model import LogisticRegression

    if not features.codes:
        return LogisticRegression(C=options.strength, max_iter=1000)
    return HistGradientBoostingClassifier(
        max_iter=options.trees,
        max_leaf_nodes=options.leaves,
        learning_rate=options.rate,
        categorical_features=features.coded,
        early_stopping=False,
        random_state=seed,
    )


@contextmanager
def _quiet() -> Iterator[None]:
    """Keep fairlearn's advice on the size of grids, and warnings about its own calls, out of the output."""
    logger = logging.getLogger("fairlearn")
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logger.setLevel(level)


# ---- checks ----------------------------------------------------------------------------------------------------------


def constraint(problem: Problem) -> tuple[str, str]:
    """The names of fairlearn's constraint, for reductions and for thresholds, or an error."""
    found = frozenset(
        RATES[name] for name in (each.removeprefix("smooth_") for each in problem.objectives) if name in RATES
    )
    if found not in CONSTRAINTS:
        raise ProblemError(
            "fairlearn has no constraint for these objectives",
            got=", ".join(problem.objectives),
            expected="a gap in false positive rates, in false negative rates, in both, or in selection rates",
            fix="leave the methods of fairlearn out",
        )
    return CONSTRAINTS[found]


def _check(problem: Problem) -> None:
    if importlib.util.find_spec("fairlearn") is None:
        raise HyperfrontError("fairlearn is not installed", fix="pip install 'hyperfront[compare]'")
    constraint(problem)
    rows_of(problem)


def _methods() -> Iterator[Method]:
    kinds = {
        "fairlearn-grid": (grid, "GridSearch"),
        "fairlearn-exponentiated": (_exponentiated, "ExponentiatedGradient"),
        "fairlearn-threshold": (_threshold, "ThresholdOptimizer"),
    }
    for name, (points, label) in kinds.items():
        for boosting in (False, True):
            yield Method(
                name=f"{name}-boosting" if boosting else name,
                label=f"{label}, {'boosting' if boosting else 'logistic'}",
                summary="fairlearn's classifiers",
                family="fairlearn",
                train=partial(train_fair, points=points, boosting=boosting),
                gives="points",
                options=Fair,
                check=lambda method, protocol, problem: _check(problem),
                sees=seen,
            )


METHODS = tuple(_methods())
