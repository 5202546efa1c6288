"""Malformed input of any kind: a 4xx with a reason, and the server goes on."""

from __future__ import annotations

import copy
import gzip
import json
import random
import struct
import zlib

import hypothesis
import numpy as np
import pytest
import schemathesis
import torch
from hypothesis import strategies as st
from schemathesis import GenerationMode
from schemathesis.checks import CHECKS

import hyperfront as hf
from hyperfront.apps.serve.options import Limits, ServiceOptions
from hyperfront.apps.serve.service import serve_model
from hyperfront.problem.registry import build
from hyperfront.zoo.fairness import TabularNet
from tests.helpers.serving import Client, serving
from tests.helpers.waiting import LIMIT

PATH = "/v2/models/people/infer"
NUMBERS = np.linspace(-1, 1, 6, dtype="<f4").reshape(2, 3)
CODES = np.array([[0, 1], [2, 3]], dtype="<i8")
RAY = np.array([[0.2, 0.8]], dtype="<f4")


@pytest.fixture(scope="module")
def server():
    """Two inputs of different types, one of them with values that the module cannot take."""
    torch.manual_seed(0)
    model = hf.wrap(TabularNet(3, [2, 2]), ["a", "b"], hidden=4)
    problem = hf.supervised(
        (torch.from_numpy(NUMBERS), torch.from_numpy(CODES)),
        losses={"a": max, "b": max},
        inputs=lambda batch: batch,
        reference=(1, 1),
    )
    front = hf.Front(("a", "b"), hf.rays(3, m=2), torch.rand(3, 2).double())
    limits = Limits(body_bytes=200_000, elements=4096, rows=100, seconds=20)
    with serving(serve_model(model, problem, name="people", front=front), ServiceOptions(limits)) as client:
        yield client
        check_alive(client)


def request() -> dict:
    """A request that is fine."""
    return {
        "id": "1",
        "inputs": [
            {"name": "numbers", "datatype": "FP32", "shape": [2, 3], "data": NUMBERS.tolist()},
            {"name": "categories", "datatype": "INT64", "shape": [2, 2], "data": CODES.tolist()},
            {"name": "ray", "datatype": "FP32", "shape": [2], "data": [0.2, 0.8]},
        ],
        "outputs": [{"name": "output"}],
    }


def binary() -> tuple[dict, list[bytes]]:
    """The same in the binary extension: JSON, and what follows it."""
    parts = {"numbers": (NUMBERS, "FP32"), "categories": (CODES, "INT64"), "ray": (RAY, "FP32")}
    inputs = [
        {"name": name, "datatype": kind, "shape": list(a.shape), "parameters": {"binary_data_size": a.nbytes}}
        for name, (a, kind) in parts.items()
    ]
    return {"inputs": inputs, "parameters": {"binary_data_output": True}}, [a.tobytes() for a, _ in parts.values()]


def send(server: Client, document: dict, blobs: list[bytes], length: object = None) -> tuple[int, bytes]:
    text = json.dumps(document).encode()
    headers = {"Inference-Header-Content-Length": str(len(text) if length is None else length)}
    status, _, body = server.call("POST", PATH, text + b"".join(blobs), headers)
    return status, body


def check_alive(server: Client) -> None:
    status, reply = server.post(PATH, request())
    assert status == 200, reply
    assert send(server, *binary())[0] == 200


def check_refused(status: int, body: bytes) -> str:
    assert 400 <= status < 500, (status, body)
    reason = json.loads(body)["error"]
    assert len(reason) > 5
    return reason


def changed(**changes) -> dict:
    """The fine request with entries replaced: ``numbers__shape=[1]``, ``outputs=3``."""
    document = request()
    for path, value in changes.items():
        name, _, key = path.partition("__")
        if key:
            next(entry for entry in document["inputs"] if entry["name"] == name)[key] = value
        else:
            document[name] = value
    return document


WRONG = {
    "not JSON": (b"{", "not JSON"),
    "nothing": (b"", "not JSON"),
    "NaN in JSON": (b'{"inputs": [NaN]}', "not JSON"),
    "a list": (b"[]", "not a JSON object"),
    "deep": (b"[" * 100_000, "not JSON"),
    "invalid UTF-8": (b'{"id": "\xff"}', "not JSON"),
    "no inputs": ({}, "needs a ray"),
    "inputs no list": (changed(inputs=3), "inputs is not a list"),
    "input no object": (changed(inputs=[3]), "not an object with a name"),
    "input without name": (changed(inputs=[{}]), "not an object with a name"),
    "unknown input": (changed(ray__name="rya"), "unknown input"),
    "input twice": (changed(ray__name="numbers"), "given twice"),
    "input missing": (changed(inputs=request()["inputs"][1:]), "numbers"),
    "wrong datatype": (changed(numbers__datatype="FP64"), "numbers has the wrong datatype"),
    "text tensor": (changed(numbers__datatype="BYTES"), "wrong datatype"),
    "datatype a list": (changed(numbers__datatype=["FP32"]), "wrong datatype"),
    "no shape": (changed(numbers__shape=None), "not a list of sizes"),
    "negative size": (changed(numbers__shape=[-2, -3]), "not a list of sizes"),
    "huge size": (changed(numbers__shape=[10**30, 3]), "not a list of sizes"),
    "fractional size": (changed(numbers__shape=[2.0, 3]), "not a list of sizes"),
    "truth as size": (changed(numbers__shape=[True, 3]), "not a list of sizes"),
    "many sizes": (changed(numbers__shape=[1] * 1000), "not a list of sizes"),
    "wrong shape": (changed(numbers__shape=[3, 2]), "wrong shape"),
    "large shape": (changed(numbers__shape=[2**30, 3]), "too large"),
    "no rows": (changed(numbers__shape=[0, 3], numbers__data=[]), "rows"),
    "too few numbers": (changed(numbers__data=[1.0]), "number of elements"),
    "ragged": (changed(numbers__data=[[1, 2], [3]]), "no tensor"),
    "texts": (changed(numbers__data=["a"] * 6), "wrong type"),
    "nothing as number": (changed(numbers__data=[None] * 6), "wrong type"),
    "objects": (changed(numbers__data=[{}] * 6), "wrong type"),
    "data an object": (changed(numbers__data={}), "no data"),
    "overflow": (changed(numbers__data=[1e300] * 6), "out of range"),
    "fractions as codes": (changed(categories__data=[0.5] * 4), "wrong type"),
    "huge codes": (changed(categories__data=[2**70] * 4), "categories"),
    "codes out of range": (changed(categories__data=[9] * 4), "does not take these inputs"),
    "negative codes": (changed(categories__data=[-1] * 4), "does not take these inputs"),
    "different rows": (changed(numbers__shape=[1, 3], numbers__data=[1, 2, 3]), "different numbers of rows"),
    "rays for other rows": (changed(ray__shape=[3, 2], ray__data=[1] * 6), "number of rays"),
    "ray too long": (changed(ray__shape=[3], ray__data=[1] * 3), "ray has the wrong shape"),
    "negative ray": (changed(ray__data=[-0.5, 1.5]), "no preference"),
    "zero ray": (changed(ray__data=[0, 0]), "no preference"),
    "two rays": (changed(parameters={"ray": [0.5, 0.5]}), "two rays"),
    "ray by text": (changed(inputs=request()["inputs"][:2], parameters={"ray": "left"}), "not understood"),
    "ray NaN": (changed(inputs=request()["inputs"][:2], parameters={"ray": "nan,1"}), "no preference"),
    "ray infinite": (changed(inputs=request()["inputs"][:2], parameters={"ray": "1e999,1"}), "no preference"),
    "ray too short": (changed(inputs=request()["inputs"][:2], parameters={"ray": [1]}), "length"),
    "ray of texts": (changed(inputs=request()["inputs"][:2], parameters={"ray": ["a", "b"]}), "list of numbers"),
    "ray of huge numbers": (changed(inputs=request()["inputs"][:2], parameters={"ray": [10**300, 1]}), "no preference"),
    "parameters a list": (changed(parameters=[1]), "not an object"),
    "shared memory": (changed(numbers__parameters={"shared_memory_region": "a"}), "shared memory"),
    "unknown output": (changed(outputs=[{"name": "other"}]), "unknown output"),
    "outputs no list": (changed(outputs={}), "outputs is not a list"),
    "output twice": (changed(outputs=[{"name": "output"}] * 2), "twice"),
    "classification": (changed(outputs=[{"name": "output", "parameters": {"classification": 3}}]), "classification"),
    "id a number": (changed(id=3), "id"),
    "binary size without bytes": (changed(numbers__parameters={"binary_data_size": 24}), "both"),
}


@pytest.mark.parametrize("case", WRONG)
def test_a_wrong_request_is_told_what_is_wrong(server, case):
    body, reason = WRONG[case]
    body = body if isinstance(body, bytes) else json.dumps(body).encode()
    status, _, answer = server.call("POST", PATH, body)
    assert reason in check_refused(status, answer)


@pytest.mark.parametrize("length", ["-1", "1e3", "\uff19", "", "99999999", "99999999999999999999", " 5", "0", "1"])
def test_a_wrong_length_of_the_json(server, length):
    text = json.dumps(binary()[0]).encode() + b"".join(binary()[1])
    head = f"POST {PATH} HTTP/1.1\r\nHost: a\r\nInference-Header-Content-Length: {length}\r\n".encode()
    reply = server.raw(head + f"Content-Length: {len(text)}\r\nConnection: close\r\n\r\n".encode() + text)
    assert reply.startswith(b"HTTP/1.1 400")
    assert b'"error"' in reply


@pytest.mark.parametrize("size", [0, 7, 23, 25, 2**40, -1, 1.5, "24", None, [24]])
def test_a_wrong_size_of_binary_data(server, size):
    document, blobs = binary()
    document["inputs"][0]["parameters"]["binary_data_size"] = size
    check_refused(*send(server, document, blobs))


def test_bytes_that_are_left_over_or_missing(server):
    document, blobs = binary()
    assert "left over" in check_refused(*send(server, document, [*blobs, b"x"]))
    check_refused(*send(server, document, [blobs[0], blobs[1], blobs[2][:-1]]))
    check_refused(*send(server, document, []))


# ---- fuzzing ---------------------------------------------------------------------------------------------------------


ODD = [None, True, -1, 0, 1.5, 2**31, 2**63, 10**30, "", "x", "FP32", [], {}, [[]], [2, 3], float(10**20)]


def mutated(random: random.Random) -> tuple[bytes, dict[str, str]]:
    """A fine binary request with a few things wrong: in the document, in its bytes, in the header."""
    document, blobs = binary()
    for _ in range(random.randrange(3)):
        mutate_document(document, random)
    text = json.dumps(document).encode()
    headers = {"Inference-Header-Content-Length": str(len(text))}
    body = bytearray(text + b"".join(blobs))
    for _ in range(random.choice([0, 0, 0, 1, 3])):
        random.choice(MUTATIONS)(body, headers, len(text), random)
    packed = headers.get("Content-Encoding")
    if packed in ("gzip", "deflate") and random.random() < 0.7:
        body = bytearray((gzip.compress if packed == "gzip" else zlib.compress)(bytes(body)))
        if random.random() < 0.5:
            flip_bit(body, headers, 0, random)
    return bytes(body), headers


def mutate_document(node: dict | list, random: random.Random) -> None:
    """Replace, delete or repeat one entry, somewhere in the tree."""
    for _ in range(random.randrange(1, 5)):
        keys = list(node) if isinstance(node, dict) else list(range(len(node)))
        if not keys:
            return
        key = random.choice(keys)
        if isinstance(node[key], dict | list) and node[key] and random.random() < 0.8:
            node = node[key]
            continue
        action = random.randrange(3)
        if action == 0:
            node[key] = copy.deepcopy(random.choice(ODD))
        elif action == 1:
            del node[key]
        elif isinstance(node, list):
            node.append(copy.deepcopy(node[key]))
        return


def flip_bit(body: bytearray, headers: dict, length: int, random: random.Random) -> None:
    if body:
        body[random.randrange(len(body))] ^= 1 << random.randrange(8)


def delete_bytes(body: bytearray, headers: dict, length: int, random: random.Random) -> None:
    place = random.randrange(len(body) + 1)
    del body[place : place + random.randrange(1, 40)]


def insert_bytes(body: bytearray, headers: dict, length: int, random: random.Random) -> None:
    place = random.randrange(len(body) + 1)
    body[place:place] = random.randbytes(random.randrange(1, 40))


def change_length(body: bytearray, headers: dict, length: int, random: random.Random) -> None:
    lengths = [length + random.randrange(-9, 9), -1, 0, 2**31, "x", "1" * 30]
    headers["Inference-Header-Content-Length"] = str(random.choice(lengths))


def change_encoding(body: bytearray, headers: dict, length: int, random: random.Random) -> None:
    headers["Content-Encoding"] = random.choice(["gzip", "deflate", "br", "identity", "gzip, gzip", "\x80"])


def insert_number(body: bytearray, headers: dict, length: int, random: random.Random) -> None:
    if len(body) > 8:
        at = random.randrange(len(body) - 8)
        body[at : at + 8] = struct.pack("<d", random.choice([float("nan"), float("inf"), -1e308, 5e-324]))


MUTATIONS = [flip_bit, delete_bytes, insert_bytes, change_length, change_encoding, insert_number]


@hypothesis.settings(max_examples=1200)
@hypothesis.given(st.randoms(use_true_random=False))
def test_no_binary_request_breaks_the_server(server, random):
    body, headers = mutated(random)
    status, _, answer = server.call("POST", PATH, body, headers)
    if status != 200:
        check_refused(status, answer)


@hypothesis.settings(max_examples=150)
@hypothesis.given(st.binary(max_size=300), st.booleans())
def test_no_bytes_at_all_break_the_server(server, noise, with_head):
    """Noise instead of HTTP: what comes back, if anything, is no server error."""
    reply = server.raw((f"POST {PATH} HTTP/1.1\r\n".encode() if with_head else b"") + noise + b"\r\n\r\n", wait=0.05)
    assert not reply or reply.startswith((b"HTTP/1.1 4", b"HTTP/1.1 1"))


CHECKED = """not_a_server_error status_code_conformance content_type_conformance response_schema_conformance
    response_headers_conformance negative_data_rejection unsupported_method""".split()  # noqa: SIM905 (easier to read)


@pytest.mark.slow
@pytest.mark.parametrize("which", ["people", "analytic"])
def test_schemathesis_finds_nothing_against_the_openapi_document(request, which):
    """Requests that follow the document and requests that break it, for every route."""
    if which == "people":
        _explore(request.getfixturevalue("server"))
        return
    problem = build("vlmop2")
    with serving(serve_model(problem.model(hidden=4), problem, name="people")) as client:
        _explore(client)


def _explore(server: Client) -> None:
    schema = schemathesis.openapi.from_url(f"http://{server.address}/openapi.json")
    checks = [CHECKS.get_one(name) for name in CHECKED]
    own = {"name": "people", "version": "1"}
    settings = hypothesis.settings(
        max_examples=20,
        suppress_health_check=list(hypothesis.HealthCheck),
    )
    routes = [result.ok() for result in schema.get_all_operations()]
    for route in routes:
        modes = list(GenerationMode) if route.method == "post" else [GenerationMode.POSITIVE]

        @settings
        @hypothesis.given(st.one_of(*(route.as_strategy(generation_mode=mode) for mode in modes)), st.integers(0, 9))
        def explore(case: schemathesis.Case, chance: int) -> None:
            if chance and case.path_parameters:  # mostly the model that is there
                case.path_parameters = {key: own[key] for key in case.path_parameters}
            case.call_and_validate(checks=checks, timeout=LIMIT)

        explore()
    assert len(routes) == 16
