"""The server, through the client that Triton's users have, and by hand."""

from __future__ import annotations

import numpy as np
import pytest
import torch
import tritonclient.http as triton

from tests.serving import Client, lenet_service, serving


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
