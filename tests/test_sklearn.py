"""The estimators of scikit-learn: its own checks, pipelines, groups, selection, and files without pickle."""

from __future__ import annotations

import pickle

import numpy as np
import pandas
import pytest
import sklearn
from sklearn.compose import ColumnTransformer
from sklearn.model_selection import GridSearchCV, cross_val_predict
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

from hyperfront.errors import CheckpointError, HyperfrontError, SelectionError
from hyperfront.sklearn import ParetoClassifier, ParetoRegressor
from tests.helpers.tables import people, without

QUICK = {"steps": 200, "learning_rate": 0.01, "rays": 5, "random_state": 0}


@parametrize_with_checks([ParetoClassifier(**QUICK), ParetoRegressor(**QUICK)])
def test_scikit_learns_own_checks_pass(estimator, check):
    check(estimator)


@pytest.fixture(scope="module")
def frame() -> pandas.DataFrame:
    return pandas.DataFrame(without(people(400), "amount", "day"))


def test_a_frame_with_groups_is_learned_selected_from_and_predicted_at_any_ray(frame):
    X, y, group = frame.drop(columns=["paid", "group"]), frame["paid"], frame["group"]
    model = ParetoClassifier(**{**QUICK, "steps": 400}).fit(X, y, sensitive_features=group)
    assert model.front_.objectives == ("log_loss", "smooth_fpr_gap", "smooth_fnr_gap")
    assert model.classes_.tolist() == ["no", "yes"] and len(model.front_) == 5
    choice = model.select(minimize="error", subject_to={"fpr_gap": 0.5})
    assert np.allclose(model.ray_, choice.ray) and choice.values["fpr_gap"] <= 0.5
    assert (model.predict(X) == model.predict(X, ray=choice.ray)).all()
    chance = model.predict_proba(X, ray=[1, 0, 0])
    assert chance.shape == (400, 2) and np.allclose(chance.sum(1), 1)
    assert model.score(X, y) > 0.55
    two = ParetoClassifier(**QUICK, objectives=("log_loss", "error_gap"))
    two.fit(X, y, sensitive_features=frame[["group", "job"]])
    assert len(two.schema_.groups) == 6


@pytest.mark.filterwarnings("ignore:the chosen model")
def test_estimators_survive_pickle_and_files_without_it(frame, tmp_path):
    X, y = frame[["age", "income", "job"]], frame["paid"]
    model = ParetoClassifier(**QUICK).fit(X, y)
    model.select(minimize="error")
    model.save(tmp_path / "model.safetensors")
    for again in (pickle.loads(pickle.dumps(model)), ParetoClassifier.load(tmp_path / "model.safetensors")):
        assert np.array_equal(again.predict_proba(X), model.predict_proba(X))
        assert np.allclose(again.front_.losses, model.front_.losses) and again.get_params() == model.get_params()
        assert np.allclose(again.select(minimize="error").ray, model.ray_, atol=1e-3)
    with pytest.raises(CheckpointError, match=r"expected: +ParetoRegressor"):
        ParetoRegressor.load(tmp_path / "model.safetensors")


def test_pipelines_grid_search_and_cross_validation_pass_groups_on(frame):
    frame = frame.dropna()
    X, y, group = frame[["age", "income", "job"]], frame["paid"], frame["group"]
    prepared = ColumnTransformer(
        [("numbers", StandardScaler(), ["age", "income"]), ("words", OneHotEncoder(sparse_output=False), ["job"])]
    ).set_output(transform="pandas")
    with sklearn.config_context(enable_metadata_routing=True):
        model = ParetoClassifier(**QUICK).set_fit_request(sensitive_features=True)
        search = GridSearchCV(make_pipeline(prepared, model), {"paretoclassifier__network": ["linear", "mlp"]}, cv=2)
        search.fit(X, y, sensitive_features=group)
        best = search.best_estimator_[-1]
        assert len(best.front_.objectives) == 3
        assert "numbers__age" in best.feature_names_in_
    assert len(cross_val_predict(ParetoClassifier(**QUICK), X, y, cv=2)) == len(X)


def test_a_regressor_learns_every_quantile():
    draw = np.random.default_rng(0)
    X = draw.uniform(-1, 1, (600, 1))
    y = X[:, 0] + draw.normal(0, 0.5, 600)
    model = ParetoRegressor(**{**QUICK, "steps": 400}).fit(X, y)
    below = [np.mean(y < model.predict(X, ray=[q, 1 - q])) for q in (0.2, 0.5, 0.8)]
    assert np.allclose(below, [0.2, 0.5, 0.8], atol=0.1)


def test_mistakes_are_explained(frame):
    X, y = frame[["age", "income"]], frame["paid"]
    with pytest.raises(HyperfrontError, match="compares groups"):
        ParetoClassifier(**QUICK, objectives=("log_loss", "fpr_gap")).fit(X, y)
    with pytest.raises(ValueError, match="inconsistent numbers"):
        ParetoClassifier(**QUICK).fit(X, y, sensitive_features=frame["group"][:5])
    with pytest.raises(ValueError, match="validation_fraction"):
        ParetoClassifier(validation_fraction=1.0).fit(X, y)
    with pytest.raises(HyperfrontError, match="one class only"):
        ParetoClassifier().fit(X, ["a"] * len(X))


def test_rows_set_aside_certify_limits_and_are_saved(frame, tmp_path):
    X, y, group = frame.drop(columns=["paid", "group"]), frame["paid"], frame["group"]
    question = {"minimize": "error", "subject_to": {"fpr_gap": 0.9}, "confidence": 0.8}
    with pytest.raises(SelectionError, match="calibration_fraction=0"):
        ParetoClassifier(**QUICK).fit(X, y, sensitive_features=group).select(**question)
    model = ParetoClassifier(**QUICK, calibration_fraction=0.25).fit(X, y, sensitive_features=group)
    choice = model.select(**question)
    assert choice.split == "val" and choice.certificate.rows == 100
    model.save(tmp_path / "model.safetensors")
    again = ParetoClassifier.load(tmp_path / "model.safetensors").select(**question)
    assert again.certificate == choice.certificate
    with pytest.raises(ValueError, match="calibration_fraction"):
        ParetoClassifier(calibration_fraction=0.9).fit(X, y)
