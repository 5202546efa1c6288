"""fairlearn's methods in comparisons: on one's own table, on a built-in problem, against fairlearn's own numbers."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import hyperfront as hf
from hyperfront import tabular
from hyperfront.comparison import Protocol, compare
from hyperfront.comparison.baselines.fair_classifiers import (
    Fair,
    _drawn,
    _exponentiated,
    _threshold,
    classifiers,
    constraint,
    features_of,
    seen,
)
from hyperfront.comparison.baselines.table_features import Features, rows_of
from hyperfront.errors import HyperfrontError, ProblemError
from hyperfront.problem.registry import build
from tests.helpers.data import DATA, REASON
from tests.helpers.tables import people, without

pytest.importorskip("fairlearn", reason="needs fairlearn: pip install 'hyperfront[compare]'")

RAYS = torch.tensor([[0.8, 0.1, 0.1], [0.2, 0.6, 0.2], [0.2, 0.2, 0.6]], dtype=torch.float64)


def own(**options) -> hf.Problem:
    table = without(people(300), "day")
    return tabular.problem(table, "paid", sensitive="group", **options)


def protocol(**options) -> Protocol:
    return Protocol(preset="own", recipe=tabular.recipe_for(180, steps=4), rays=RAYS, options=options)


@pytest.fixture(scope="module")
def results(tmp_path_factory) -> dict[str, hf.comparison.Result]:
    names = ["phn-ls", "ls", "fairlearn-grid", "fairlearn-grid-boosting", "fairlearn-exponentiated"]
    names += ["fairlearn-threshold"]
    few = {name: Fair(trees=5, rounds=2) for name in names if name.startswith("fairlearn")}
    folder = tmp_path_factory.mktemp("compared")
    found = compare(own(), names, protocol(**few), seeds=[0], folder=folder, progress=False)
    again = compare(own(), names, protocol(**few), seeds=[0], folder=folder, progress=False)
    assert [result.fronts for result in again] == [result.fronts for result in found]  # from the files
    return {result.method: result for result in found}


def test_every_method_has_as_many_points_as_rays_and_finite_numbers(results):
    for name, result in results.items():
        front = result.fronts["test"]
        assert len(front["losses"]) == len(RAYS) and np.isfinite(front["losses"]).all(), name
        assert all(0 <= value <= 1 for value in front["scores"]["fpr_gap"])
        assert bool(result.rays) == (not name.startswith("fairlearn")), name  # only models of rays have rays


@pytest.mark.filterwarnings("ignore")  # fairlearn's own, about pandas
def test_scores_of_the_grid_are_those_of_fairlearns_own_metrics(results):
    from fairlearn.metrics import false_negative_rate, false_positive_rate
    from fairlearn.metrics import make_derived_metric as derived
    from fairlearn.reductions import EqualizedOdds, GridSearch
    from sklearn.linear_model import LogisticRegression

    problem = own()
    numbers, categories, label, group = rows_of(problem)
    features = Features.of(numbers, categories, codes=False)
    search = GridSearch(LogisticRegression(max_iter=1000), EqualizedOdds(), grid_size=len(RAYS), grid_limit=2.0)
    search.fit(features(numbers, categories), label.numpy(), sensitive_features=group.numpy())
    test = problem.sources["test"].data
    X, y = features(*test[:2]), test[2].numpy()
    stored = results["fairlearn-grid"].fronts["test"]["scores"]
    for metric, name in ((false_positive_rate, "fpr_gap"), (false_negative_rate, "fnr_gap")):
        gap = derived(metric=metric, transform="difference")
        expected = [gap(y, each.predict(X), sensitive_features=test[3].numpy()) for each in search.predictors_]
        assert np.allclose(stored[name], expected, atol=1e-5)
    assert np.allclose(stored["error"], [np.mean(each.predict(X) != y) for each in search.predictors_], atol=1e-5)


def test_features_keep_columns_mark_missing_numbers_and_know_no_unseen_category():
    numbers, categories = torch.tensor([[1.0], [3.0], [float("nan")]]), torch.tensor([[1], [2], [1]])
    ones = Features.of(numbers, categories, codes=False)
    new = ones(torch.tensor([[3.0], [float("nan")]]), torch.tensor([[2], [9]]))
    assert np.allclose(new, [[1, 0, 0, 1], [0, 1, 0, 0]])
    codes = Features.of(numbers, categories, codes=True)
    new = codes(torch.tensor([[3.0], [float("nan")]]), torch.tensor([[2], [9]]))
    assert codes.coded == [1] and np.allclose(new, [[3, 1], [np.nan, np.nan]], equal_nan=True)


def test_constraints_follow_the_gaps_among_the_objectives_and_other_problems_are_refused(tmp_path):
    assert constraint(own()) == ("EqualizedOdds", "equalized_odds")
    assert constraint(own(objectives=("error", "selection_gap")))[0] == "DemographicParity"
    with pytest.raises(ProblemError, match="no constraint"):
        compare(
            own(objectives=("log_loss", "brier", "error_gap")),
            ["fairlearn-grid"],
            protocol(),
            seeds=[0],
            folder=tmp_path,
        )
    numbers = tabular.problem(without(people(300), "day"), "amount", sensitive="group")
    with pytest.raises(ProblemError, match="two classes and groups"):
        rows_of(numbers)
    with pytest.raises(HyperfrontError, match="limit"):
        Fair(limit=0.0)


def test_models_of_a_comparison_get_the_group_of_each_row():
    problem = own()
    batch = next(problem.test.source.batches(8, torch.device("cpu")))
    assert torch.equal(seen(problem).inputs(batch)[2], batch[3])


@pytest.mark.data
@pytest.mark.skipif(DATA is None, reason=REASON)
def test_a_built_in_table_is_compared_too(tmp_path):
    problem = build("adult", data_dir=DATA, rows=1500)
    found = compare(problem, ["fairlearn-grid"], protocol(), seeds=[0], folder=tmp_path, progress=False)
    assert min(found[0].fronts["test"]["scores"]["fpr_gap"]) < 0.2
    assert max(found[0].fronts["test"]["scores"]["accuracy"]) > 0.75


def test_decisions_do_not_depend_on_the_batch_and_unknown_groups_get_those_of_the_classifier():
    from sklearn.linear_model import LogisticRegression

    problem, draw = own(), np.random.default_rng(0)
    features = features_of(problem, boosting=False)
    X = features(*rows_of(problem)[:2])
    order = draw.permutation(len(X))
    for points in (_exponentiated, _threshold):
        predict = [*classifiers(problem, features, points, count=2, options=Fair(rounds=3), seed=3)][1]
        group = rows_of(problem)[3].numpy()
        whole = predict(X, group)
        parts = [predict(X[rows], group[rows]) for rows in np.array_split(order, 7)]
        assert np.array_equal(np.concatenate(parts), whole[order])
    elsewhere = np.full(len(X), 9)
    alone = LogisticRegression(max_iter=1000).fit(X, rows_of(problem)[2].numpy()).predict(X)
    assert np.array_equal(predict(X, elsewhere) > 0.5, alone > 0) and 0 < alone.mean() < 1
    chances = draw.random(20_000)
    drawn = _drawn(chances, draw.normal(size=(20_000, 3)), 1) > 0.5
    for low in (0.0, 0.5, 0.9):  # the share of ones is the chance
        inside = (chances >= low) & (chances < low + 0.1)
        assert abs(drawn[inside].mean() - chances[inside].mean()) < 0.05
    assert not np.array_equal(drawn, _drawn(chances, draw.normal(size=(20_000, 3)), 1) > 0.5)
