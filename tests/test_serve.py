"""The server, through the client that Triton's users have, and by hand."""

from __future__ import annotations

import asyncio
import inspect
import re
import threading
from pathlib import Path

import numpy as np
import pytest
import torch
import tritonclient.http as triton

import hyperfront as hf
from hyperfront.apps.cli.serve import serve as command
from hyperfront.apps.serve.batching import Batcher
from hyperfront.apps.serve.predictor import Query
from hyperfront.apps.serve.service import Service, serve_model
from hyperfront.apps.serve.tensors import TensorMetadata
from hyperfront.problem.registry import build
from hyperfront.storage.nests import tensors
from tests.helpers.modules import CASES
from tests.helpers.serving import Client, lenet_service, serving
from tests.helpers.waiting import LIMIT


@pytest.fixture(scope="module")
def service():
    return lenet_service()


@pytest.fixture(scope="module")
def server(service):
    with serving(service) as client:
        yield client


@pytest.fixture
def client(server: Client):
    with triton.InferenceServerClient(server.address) as client:
        yield client


def tensor(name: str, array: np.ndarray, *, binary: bool = True) -> triton.InferInput:
    made = triton.InferInput(name, list(array.shape), {"float32": "FP32", "float64": "FP64"}[str(array.dtype)])
    return made.set_data_from_numpy(array, binary_data=binary)


def images(rows: int) -> np.ndarray:
    return np.random.default_rng(0).random((rows, 1, 36, 36), dtype=np.float32)


def rays(count: int) -> np.ndarray:
    return np.random.default_rng(1).dirichlet([1, 1], count).astype(np.float32)


# ---- tritonclient, unchanged -----------------------------------------------------------------------------------------


def test_tritonclient_finds_its_way(client):
    assert client.is_server_live()
    assert client.is_server_ready()
    assert client.is_model_ready("lenet")
    assert client.is_model_ready("lenet", "1")
    assert not client.is_model_ready("lenet", "2")
    assert not client.is_model_ready("other")
    assert client.get_server_metadata()["name"] == "hyperfront"
    described = client.get_model_metadata("lenet", "1")
    assert described["inputs"] == [
        {"name": "ray", "datatype": "FP32", "shape": [-1, 2]},
        {"name": "x", "datatype": "FP32", "shape": [-1, 1, 36, 36]},
    ]
    assert [spec["shape"] for spec in described["outputs"]] == [[-1, 10], [-1, 10]]
    assert client.get_model_config("lenet")["input"][1]["dims"] == [1, 36, 36]
    (entry,) = client.get_model_repository_index()
    assert (entry["name"], entry["version"], entry["state"]) == ("lenet", "1", "READY")


@pytest.mark.parametrize("ask_binary", [True, False])
@pytest.mark.parametrize("send_binary", [True, False])
@pytest.mark.parametrize("version", ["", "1"])
def test_tritonclient_gets_what_the_plain_module_gives(client, service, send_binary, ask_binary, version):
    x, ray = images(3), np.array([[0.3, 0.7]], np.float32)
    outputs = [triton.InferRequestedOutput(name, binary_data=ask_binary) for name in ("output_1", "output_0")]
    inputs = [tensor("x", x, binary=send_binary), tensor("ray", ray, binary=send_binary)]
    reply = client.infer("lenet", inputs, version, outputs=outputs, request_id="mine")
    assert reply.get_response()["id"] == "mine"
    expected = service.cache.model.at(ray)(torch.from_numpy(x))
    for index in range(2):
        np.testing.assert_allclose(reply.as_numpy(f"output_{index}"), expected[index].detach(), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("count", [2, 5, 40])
def test_a_ray_for_each_row(client, service, count):
    x, some = images(count), rays(count)
    some[1] = some[0]
    reply = client.infer("lenet", [tensor("x", x), tensor("ray", some)])
    expected = service.cache.model(torch.from_numpy(x), some, paired=True)
    np.testing.assert_allclose(reply.as_numpy("output_0"), expected[0].detach(), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("ray", [[0.25, 0.75], "0.25, 0.75", [1, 3]])
def test_the_ray_as_a_parameter(client, service, ray):
    x = images(2)
    reply = client.infer("lenet", [tensor("x", x)], parameters={"ray": ray})
    expected = service.cache.model.at([0.25, 0.75])(torch.from_numpy(x))[1]
    np.testing.assert_allclose(reply.as_numpy("output_1"), expected.detach(), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("algorithm", ["gzip", "deflate"])
def test_packed_requests_and_responses(client, algorithm):
    x = images(40)
    inputs = [tensor("x", x), tensor("ray", rays(1))]
    plain = client.infer("lenet", inputs)
    packed = client.infer(
        "lenet", inputs, request_compression_algorithm=algorithm, response_compression_algorithm=algorithm
    )
    np.testing.assert_array_equal(plain.as_numpy("output_0"), packed.as_numpy("output_0"))


def test_tritonclient_is_told_what_is_wrong(client):
    with pytest.raises(triton.InferenceServerException, match="x has the wrong shape"):
        client.infer("lenet", [tensor("x", np.zeros((2, 36, 36), np.float32)), tensor("ray", rays(1))])
    with pytest.raises(triton.InferenceServerException, match="a request needs a ray"):
        client.infer("lenet", [tensor("x", images(1))])


def test_concurrent_requests_with_different_rays_each_get_their_own(server, service):
    """Merged or not, every answer is that of its own rows at its own ray."""
    client = triton.InferenceServerClient(server.address, concurrency=16)
    some, asked = rays(12), []
    for index in range(60):
        x = np.roll(images(1 + index % 3), index)
        ray = some[index % 12 : index % 12 + 1]
        asked.append((x, ray, client.async_infer("lenet", [tensor("x", x), tensor("ray", ray)])))
    for x, ray, pending in asked:
        expected = service.cache.model.at(ray)(torch.from_numpy(x))[0].detach()
        np.testing.assert_allclose(pending.get_result().as_numpy("output_0"), expected, rtol=1e-4, atol=1e-5)


def test_tritonclient_sets_the_deadline_of_a_request():
    """Its timeout is in microseconds."""
    released = threading.Event()
    spec = TensorMetadata("x", "FP32", (1,))

    def predict(some):
        assert released.wait(LIMIT)
        return [query.inputs for query in some]

    slow = Service("echo", ("a", "b"), (spec,), (spec,), predict, lambda _: 1.0)
    inputs = [tensor("x", np.ones((1, 1), np.float32)), tensor("ray", rays(1))]
    with serving(slow) as server, triton.InferenceServerClient(server.address) as client:
        with pytest.raises(triton.InferenceServerException, match="deadline"):
            client.infer("echo", inputs, timeout=1000)
        released.set()
        assert client.infer("echo", inputs, timeout=60_000_000).as_numpy("x") == 1


# ---- by hand ---------------------------------------------------------------------------------------------------------


def infer(server: Client, document: dict, name: str = "lenet"):
    return server.post(f"/v2/models/{name}/infer", document)


def test_json_data_may_be_nested_or_flat(server):
    x = images(2)
    spec = {"name": "x", "datatype": "FP32", "shape": [2, 1, 36, 36]}
    answers = [
        infer(server, {"parameters": {"ray": [0.5, 0.5]}, "inputs": [spec | {"data": data}]})
        for data in (x.tolist(), x.ravel().tolist())
    ]
    assert answers[0] == answers[1]
    status, reply = answers[0]
    assert status == 200
    assert [output["shape"] for output in reply["outputs"]] == [[2, 10], [2, 10]]
    assert len(reply["outputs"][0]["data"]) == 20


def test_outputs_that_json_cannot_hold_are_refused_there_and_sent_as_binary(client):
    inputs = [tensor("x", np.full((1, 1, 36, 36), np.nan, np.float32)), tensor("ray", rays(1))]
    assert np.isnan(client.infer("lenet", inputs).as_numpy("output_0")).any()
    with pytest.raises(triton.InferenceServerException, match="binary_data"):
        client.infer("lenet", inputs, outputs=[triton.InferRequestedOutput("output_0", binary_data=False)])


def test_a_large_request_is_the_same_as_many_small_ones(client, service):
    x, some = images(150), rays(150)
    reply = client.infer("lenet", [tensor("x", x), tensor("ray", some)]).as_numpy("output_0")
    for row in (0, 63, 64, 149):
        alone = service.cache.model.at(some[row])(torch.from_numpy(x[row : row + 1]))[0].detach()
        np.testing.assert_allclose(reply[row : row + 1], alone, rtol=1e-4, atol=1e-5)


# ---- other models ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("case", CASES)
def test_any_module_is_served_as_it_is(case):
    """Names from the module, shapes from an example, outputs at a ray for each row as the model itself gives them."""
    module, x = CASES[case]()
    model = hf.wrap(module, ["a", "b", "c"], hidden=8)
    model.calibrate([x])
    batch = x if isinstance(x, tuple) else (x,)
    problem = hf.supervised((batch, x), losses={"a": max, "b": max, "c": max}, inputs=lambda batch: batch[0])
    service = serve_model(model, problem)
    some = np.random.default_rng(0).dirichlet([1, 1, 1], 6).astype(np.float32)
    some[3] = some[1]
    (found,) = service.predict([Query(some, batch, 6)])
    with torch.no_grad():
        expected = tensors(model(x, some, paired=True))
    assert len(found) == len(service.outputs) == len(expected)
    for spec, ours, theirs in zip(service.outputs, found, expected, strict=True):
        assert spec.fits(ours.shape)
        torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-5)
    names = {"tied Transformer": ["tokens"], "two inputs, dict output": ["a", "b"], "mlp": ["input"]}
    assert [spec.name for spec in service.inputs] == names.get(case, ["x"])
    if case == "two inputs, dict output":
        assert [spec.name for spec in service.outputs] == ["sum", "hidden"]


@pytest.mark.parametrize("name", ["multi-mnist", "adult", "sarcos", "nyuv2"])
def test_built_in_problems_are_served_without_their_data(name):
    problem = build(name, **({"size": "72x96"} if name == "nyuv2" else {}))
    model = problem.model(hidden=2)
    model.calibrate([problem.example()])
    service = serve_model(model, problem)
    rows = tuple(spec.zeros(3) for spec in service.inputs)
    found = service.predict([Query(np.full((1, model.m), 1 / model.m, np.float32), rows, 3)])[0]
    assert all(len(output) == 3 for output in found)


def test_networks_that_normalize_by_their_batch_are_never_batched_with_others():
    net = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.BatchNorm1d(4))
    model = hf.wrap(net, ["a", "b"], batchnorm="batch", hidden=4)
    service = serve_model(model, inputs=[TensorMetadata("x", "FP32", (4,))])
    assert service.separate
    x = torch.randn(9, 4)
    expected = model.at([0.5, 0.5])(x[:5]).detach()

    async def ask() -> list:
        batcher = Batcher(service.predict, seconds=service.seconds, max_rows=None)
        ray = np.array([[0.5, 0.5]], np.float32)
        parts = [Query(ray, (x[:5],), 5), Query(ray, (x[5:],), 4)]
        return await asyncio.gather(*(batcher.submit(part) for part in parts))

    torch.testing.assert_close(asyncio.run(ask())[0][0], expected)


@pytest.fixture(scope="module")
def analytic():
    problem = build("vlmop2")
    torch.manual_seed(0)
    model = problem.model(hidden=16)
    hf.fit(model, problem, epochs=3, validation_rays=9, callbacks=[])
    with serving(serve_model(model, problem, name="vlmop2")) as client:
        yield client, model, problem


def test_an_analytic_problem_is_a_function_of_the_ray_alone(analytic):
    server, model, problem = analytic
    some = hf.rays(7, m=2)
    ray = {"name": "ray", "datatype": "FP64", "shape": [7, 2], "data": some.tolist()}
    status, reply = infer(server, {"inputs": [ray]}, "vlmop2")
    assert status == 200
    theta, losses = (np.reshape(output["data"], output["shape"]) for output in reply["outputs"])
    for row in range(7):
        point = model.at(some[row])().detach()
        np.testing.assert_allclose(theta[row], point, atol=1e-6)
    np.testing.assert_allclose(losses, hf.evaluate(model, problem, some).losses, atol=1e-6)
    assert infer(server, {"parameters": {"ray": "0.5, 0.5"}}, "vlmop2")[1]["outputs"][0]["shape"] == [1, 2]


def test_the_front_and_an_operating_point_of_it(analytic):
    server, model, problem = analytic
    status, document = server.get("/v1/front")
    assert (status, document["objectives"], len(document["rays"])) == (200, ["l1", "l2"], 25)
    status, point = server.post("/v1/select", {"minimize": "l1", "subject_to": {"l2": 0.5}})
    assert (status, point["refined"]) == (200, True)
    losses = hf.evaluate(model, problem, [point["ray"]]).losses[0]
    assert losses[1] == pytest.approx(0.5, abs=1e-3)
    assert losses.tolist() == pytest.approx(list(point["losses"].values()))
    status, refused = server.post("/v1/select", {"minimize": "l1", "subject_to": {"l2": [">=", 7]}})
    assert status == 422
    assert "l2 =" in refused["error"]
    assert server.post("/v1/select", {"minimize": "l7"})[0] == 400


def test_a_run_without_a_front_says_so(server):
    assert server.get("/v1/front")[0] == server.post("/v1/select", {"minimize": "left"})[0] == 404


def test_sizes_may_be_free():
    """An image of any size: outputs of the same size, and one number for each image."""

    class Maps(torch.nn.Conv2d):
        def forward(self, x):
            maps = super().forward(x)
            return maps, maps.mean((1, 2, 3))

    model = hf.wrap(Maps(1, 2, 3, padding=1), ["a", "b"], hidden=4)
    service = serve_model(model, inputs=[TensorMetadata("x", "FP32", (1, -1, -1))], name="free")
    assert [spec.shape for spec in service.outputs] == [(2, -1, -1), ()]
    with serving(service) as client, triton.InferenceServerClient(client.address) as reader:
        for size in ((5, 7), (12, 4)):
            x = np.random.default_rng(0).random((2, 1, *size), np.float32)
            reply = reader.infer("free", [tensor("x", x), tensor("ray", rays(1))])
            assert reply.as_numpy("output_0").shape == (2, 2, *size)
            assert reply.as_numpy("output_1").shape == (2,)


# ---- the documentation -----------------------------------------------------------------------------------------------


def test_what_docs_serve_says_works(server, analytic):
    text = (Path(__file__).parents[1] / "docs" / "serve.md").read_text()
    (code,) = re.findall(r"```python\n(.*?)```", text, flags=re.DOTALL)
    names: dict = {}
    exec(code.replace("localhost:8000", server.address), names)
    assert names["reply"].as_numpy("output_0").shape == (3, 10)
    names["client"].close()
    lines = re.findall(r"^\$ curl localhost:8000(\S+) -d '(.*)'$", text, flags=re.MULTILINE)
    assert len(lines) == 3
    for path, body in lines:
        path = path.replace("/vlmop2-epo/", "/vlmop2/")  # a folder made by train is called after the solver too
        assert analytic[0].call("POST", path, body.encode())[0] == 200
    documented = set(analytic[0].get("/openapi.json")[1]["paths"])
    for path in documented:
        named = path.replace("{name}", "NAME").replace("/versions/{version}", "")
        assert named in text, path
    for option in re.findall(r"`(--[a-z-]+)", text):
        name = option.removeprefix("--").replace("-", "_")
        assert name in inspect.signature(command).parameters, option
