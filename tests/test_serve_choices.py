"""The server's choices: default rays, operating points measured on data, decisions, and rows with column names."""

from __future__ import annotations

import dataclasses
import json
import shlex

import numpy as np
import pytest
import torch
import tritonclient.http as triton

import hyperfront as hf
from hyperfront.apps.serve.describe import curl
from hyperfront.apps.serve.service import open_run, serve_model
from hyperfront.apps.shared.choice import Choice
from hyperfront.apps.shared.wording import arguments
from hyperfront.errors import HyperfrontError
from tests.helpers import explored
from tests.helpers.serving import serving

RAY = [0.3, 0.7]


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    return explored.lent(tmp_path_factory.mktemp("served") / "loans")


@pytest.fixture(scope="module")
def client(run):
    service = serve_model(run.model, explored.loans(), name="loans", front=run.front, at=RAY)
    with serving(service) as client:
        yield client


def test_rows_with_column_names_are_predicted(client, run):
    rows = [{"income": 60, "debt": 4, "name": "A"}, {"income": 20, "debt": None, "name": "B"}]
    status, reply = client.post("/v1/predict", {"rows": rows, "ray": [0.8, 0.2]})
    x = torch.tensor([[0.5, 2.0], [-1.5, 0.0]])
    expected = run.model.at([0.8, 0.2])(x).sigmoid()
    assert status == 200 and reply["ray"] == pytest.approx([0.8, 0.2])
    assert [each["probability"] for each in reply["predictions"]] == pytest.approx(expected.tolist(), abs=1e-6)
    assert [each["label"] for each in reply["predictions"]] == [explored.PAID.classes[int(p > 0.5)] for p in expected]
    status, reply = client.post("/v1/predict", {"rows": rows[:1]})  # the default ray
    assert status == 200 and reply["ray"] == pytest.approx(RAY)


@pytest.mark.parametrize("ray", [RAY, None])
def test_the_request_to_try_has_column_names_and_is_answered(run, client, ray):
    words = shlex.split(curl(serve_model(run.model, explored.loans(), name="loans", front=run.front, at=ray), ""))
    assert words[:3:2] == ["curl", "-d"] and words[1] == "/v1/predict?model=loans"
    body = json.loads(words[3])
    assert [*body["rows"][0]] == ["income", "debt"] and ("ray" in body) == (ray is None)
    assert client.post(words[1], body)[0] == 200


@pytest.mark.parametrize(
    ("body", "says"),
    [
        ({"rows": [{"income": 60}]}, "debt"),
        ({"rows": [{"income": 60, "debt": [1]}]}, "debt"),
        ({"rows": []}, "rows"),
        ({"rows": {"income": 1}}, "list"),
        ({"rows": [{"income": 60, "debt": 1}], "ray": [0.5]}, "ray"),
        ({"rows": [{"income": 60, "debt": 1}], "rey": [0.5, 0.5]}, "rey"),
    ],
)
def test_rows_that_do_not_fit_are_refused_with_a_reason(client, body, says):
    status, reply = client.post("/v1/predict", body)
    assert status == 400 and says in reply["error"]


def test_probabilities_and_labels_are_sent_to_those_who_ask(client, run):
    x = np.random.default_rng(0).random((5, 2), np.float32)
    with triton.InferenceServerClient(client.address) as reader:
        names = [output["name"] for output in reader.get_model_metadata("loans")["outputs"]]
        given = triton.InferInput("input", [5, 2], "FP32").set_data_from_numpy(x)
        plain = reader.infer("loans", [given])  # without a ray, as clients that know of none
        assert plain.get_output("probability") is None
        asked = [triton.InferRequestedOutput(name) for name in ("label", "probability")]
        reply = reader.infer("loans", [given], outputs=asked)
    assert names == ["output", "probability", "label"]
    logit = run.model.at(RAY)(torch.from_numpy(x)).detach()
    np.testing.assert_allclose(plain.as_numpy("output"), logit, atol=1e-5)
    np.testing.assert_allclose(reply.as_numpy("probability"), logit.sigmoid(), atol=1e-5)
    np.testing.assert_array_equal(reply.as_numpy("label"), (logit > 0).long())


def test_metadata_name_the_default_ray_and_the_columns(client):
    parameters = client.get("/v2/models/loans")[1]["parameters"]
    assert [float(entry) for entry in parameters["default_ray"].split(",")] == pytest.approx(RAY)
    assert parameters["columns"] == "income,debt" and parameters["classes"] == "refuse,lend"
    body = client.get("/openapi.json")[1]["paths"]["/v1/predict"]["post"]["requestBody"]
    assert "income" in body["content"]["application/json"]["example"]["rows"][0]


def test_an_operating_point_is_measured_on_the_validation_data(client, run):
    status, point = client.post("/v1/select", {"maximize": "accuracy", "subject_to": {"fpr_gap": 0.1}})
    assert (status, point["refined"]) == (200, True)
    again = hf.evaluate(run.model, explored.loans().val, [point["ray"]])
    assert point["scores"]["accuracy"] == pytest.approx(float(again.scores["accuracy"]), abs=1e-6)
    assert point["scores"]["fpr_gap"] <= 0.1
    sure = point["uncertainty"]["intervals"]
    assert sure["accuracy"]["low"] < point["scores"]["accuracy"] < sure["accuracy"]["high"]
    assert point["uncertainty"]["rows"] and {each["method"] for each in sure.values()} <= {"exact", "asymptotic"}
    kept = run.front.scores["fpr_gap"] <= 0.1
    assert point["scores"]["accuracy"] >= float(run.front.scores["accuracy"][kept].max())
    assert client.post("/v1/select", {"maximize": "accuracy", "subject_to": {"fpr_gap": -1}})[0] == 422


def test_without_data_the_stored_points_are_searched(run, tmp_path):
    problem = dataclasses.replace(explored.loans(), sources={}, example=lambda: torch.zeros(1, 2))
    service = serve_model(run.model, problem, front=dataclasses.replace(run.front, evaluator=None, origin=None))
    found = service.select(Choice(minimize="bce"))
    assert found["refined"] is False and "no rows" in found["uncertainty"]["reason"]


def test_the_front_comes_with_intervals_if_they_are_asked_for(client, run):
    assert "uncertainty" not in client.get("/v1/front")[1]
    status, front = client.get("/v1/front?intervals=true")
    assert status == 200 and len(front["uncertainty"]) == len(front["rays"]) == len(run.front)
    for values, sure in zip(zip(*front["scores"].values()), front["uncertainty"]):
        for name, value in zip(front["scores"], values):
            low, high = sure["intervals"][name]["low"], sure["intervals"][name]["high"]
            assert low is None or low - 1e-5 <= value
            assert high is None or value <= high + 1e-5


def test_the_choice_of_training_is_the_default_ray(run):
    names = {"target": "tests.helpers.explored:lender", "problem": "tests.helpers.explored:loans"}
    run.folder.choice.write_text('{"ray": [0.25, 0.75]}')
    try:
        service = open_run(run.folder.path, **names, cache_bytes=2**20)
    finally:
        run.folder.choice.unlink()
    assert service.default_ray[0].tolist() == pytest.approx([0.25, 0.75])


def test_a_run_folder_is_served_at_a_default_ray(run):
    names = {"target": "tests.helpers.explored:lender", "problem": "tests.helpers.explored:loans"}
    service = open_run(run.folder.path, **names, at=[0.3, 0.7], cache_bytes=2**20)
    assert service.default_ray[0].tolist() == pytest.approx(RAY)
    with pytest.raises(HyperfrontError):
        open_run(run.folder.path, **names, at=[-1, 2], cache_bytes=2**20)


def test_a_choice_in_words():
    assert arguments("maximize accuracy") == {"maximize": "accuracy", "subject_to": {}}
    words = "minimize  mean error subject to fpr gap <= 5%, cost>=2 and risk ≤ .1 with confidence .95"
    assert arguments(words) == {
        "minimize": "mean error",
        "subject_to": {"fpr gap": ("<=", 0.05), "cost": (">=", 2.0), "risk": ("<=", 0.1)},
        "confidence": 0.95,
    }
    for wrong in ("accuracy", "minimize a subject to b", "minimize a subject to b < 2", "minimize a subject to b <= x"):
        with pytest.raises(HyperfrontError):
            arguments(wrong)
