"""Several models and versions in one server, and their reload without a lost request."""

from __future__ import annotations

import http.client
import json
import os
import signal
import socket
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import torch
import tritonclient.http as triton

import hyperfront as hf
from hyperfront.apps.serve import sources
from hyperfront.apps.serve.app import create_app
from hyperfront.apps.serve.service import Service
from hyperfront.apps.serve.tensors import TensorMetadata
from hyperfront.errors import HyperfrontError
from tests.helpers.server_process import started
from tests.helpers.serving import Client, serving
from tests.helpers.waiting import LIMIT, until

ROOT = Path(__file__).parents[1]
SPEC = TensorMetadata("x", "FP32", (1,))
ASK = {"parameters": {"ray": [0.5, 0.5]}, "inputs": [{"name": "x", "datatype": "FP32", "shape": [1, 1], "data": [7]}]}


def net() -> torch.nn.Module:
    return torch.nn.Linear(1, 1)


def adding(number: float, name: str = "add", version: str = "1") -> Service:
    """A model that adds a number."""

    def predict(some):
        return [(query.inputs[0] + number,) for query in some]

    return Service(name, ("a", "b"), (SPEC,), (SPEC,), predict, lambda _: 0.0, version=version)


def constant(path: Path, number: float) -> None:
    """Write the checkpoint of a model that returns the number at every ray."""
    model = hf.wrap(net(), ["a", "b"], hidden=2)
    with torch.no_grad():
        for tensor in model.hypernet.parameters():
            tensor.zero_()
        model.hypernet.heads.bias.copy_(torch.tensor([0.0, number]))
    path.parent.mkdir(parents=True, exist_ok=True)
    model.save(path)


# ---- names and versions ----------------------------------------------------------------------------------------------


def test_tritonclient_reaches_every_model_and_version():
    others = [adding(10, version="2"), adding(100, "other"), adding(5, version="10")]
    with serving(adding(1), others=others) as server, triton.InferenceServerClient(server.address) as client:

        def infer(name: str, version: str = "") -> tuple[float, str]:
            x = triton.InferInput("x", [1, 1], "FP32").set_data_from_numpy(np.full((1, 1), 7, np.float32))
            reply = client.infer(name, [x], version, parameters={"ray": "0.5, 0.5"})
            return reply.as_numpy("x").item(), reply.get_response()["model_version"]

        assert infer("add", "1") == (8, "1") and infer("add", "2") == (17, "2")
        assert infer("add") == (12, "10")  # the latest, as a number
        assert infer("other") == infer("other", "1") == (107, "1")
        assert client.get_model_metadata("add")["versions"] == ["1", "2", "10"]
        listed = {(entry["name"], entry["version"]) for entry in client.get_model_repository_index()}
        assert listed == {("add", "1"), ("add", "2"), ("add", "10"), ("other", "1")}
        assert client.is_model_ready("add", "2") and not client.is_model_ready("add", "3")
        with pytest.raises(triton.InferenceServerException, match="unknown version"):
            infer("other", "2")
        with pytest.raises(triton.InferenceServerException, match="unknown model"):
            infer("third")


def test_routes_of_the_front_need_the_name_of_one_of_several_models():
    front = hf.Front(("a", "b"), hf.rays(3, m=2), torch.rand(3, 2).double())
    with_front = Service("b", ("a", "b"), (), (), lambda some: [], lambda _: 0.0, front=front)
    with serving(adding(1), others=[with_front]) as client:
        status, answer = client.get("/v1/front")
        assert status == 400 and "?model=NAME" in answer["error"]
        assert client.get("/v1/front?model=b")[1]["objectives"] == ["a", "b"]
        assert client.get("/v1/front?model=b&version=2")[0] == client.get("/v1/front?model=add")[0] == 404
        page = client.call("GET", "/docs")[2].decode()
        assert "hyperfront: add, b" in page


def test_words_of_the_command_name_runs_and_folders_of_versions(tmp_path):
    for folder in ("run", "many/1", "many/2", "many/10", "many/old"):
        (tmp_path / folder).mkdir(parents=True)
    for folder in ("run", "many/1", "many/2", "many/10"):
        (tmp_path / folder / "config.json").touch()
    run, many = str(tmp_path / "run"), str(tmp_path / "many")
    assert [(s.name, s.version) for s in sources.find([run, f"own={run}", f"{tmp_path}/model.safetensors"])] == [
        ("run", "1"),
        ("own", "1"),
        ("model", "1"),
    ]
    assert [(s.name, s.version, s.path.name) for s in sources.find([many], "mine")] == [
        ("mine", "1", "1"),
        ("mine", "2", "2"),
        ("mine", "10", "10"),
    ]
    for words, name, message in (
        ([], None, "no run"),
        ([run, run], None, "two models"),
        ([run, many], "x", "--name is for one"),
        ([run], "a/b", "slash"),
    ):
        with pytest.raises(HyperfrontError, match=message):
            sources.find(words, name)


def test_two_models_of_the_same_name_and_version_are_refused():
    with pytest.raises(HyperfrontError, match="same name and version"):
        create_app(adding(1), adding(2))
    create_app(adding(1), adding(2, version="2"))


# ---- reloading -------------------------------------------------------------------------------------------------------


def test_a_request_ends_on_the_model_with_which_it_began():
    began, go_on = threading.Event(), threading.Event()

    def predict(some):
        began.set()
        assert go_on.wait(LIMIT)
        return [(query.inputs[0] + 1,) for query in some]

    old = Service("add", ("a", "b"), (SPEC,), (SPEC,), predict, lambda _: 1.0)
    with serving(old, reopen=lambda: [adding(2), adding(3, "new")]) as client, ThreadPoolExecutor(1) as threads:
        request = threads.submit(client.post, "/v2/models/add/infer", ASK)
        assert began.wait(LIMIT)
        before = client.app.models
        client.reload()
        until(lambda: client.get("/v2/models/new")[0] == 200)
        assert client.post("/v2/models/add/infer", ASK)[1]["outputs"][0]["data"] == [9]
        assert before.users == 1
        go_on.set()
        assert request.result()[1]["outputs"][0]["data"] == [8]
        until(lambda: not before.users)


def test_a_client_that_does_not_read_does_not_delay_the_next_reload():
    size = 5_000_000
    wide = TensorMetadata("y", "FP32", (size,))
    old = Service(
        "add", ("a", "b"), (SPEC,), (wide,), lambda some: [(torch.zeros(q.rows, size),) for q in some], lambda _: 0.0
    )
    body = json.dumps({**ASK, "parameters": {"ray": [0.5, 0.5], "binary_data_output": True}}).encode()
    with serving(old, reopen=lambda: [adding(2)]) as client, socket.socket() as slow:
        slow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        slow.connect(("127.0.0.1", client.port))
        before = client.app.models
        slow.sendall(
            b"POST /v2/models/add/infer HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n" % len(body) + body
        )
        until(lambda: client.connections.unread)
        assert before.users == 0
        client.reload()
        until(lambda: client.app.models is not before)
        assert client.post("/v2/models/add/infer", ASK)[1]["outputs"][0]["data"] == [9]
        assert client.connections.unread


def test_models_that_cannot_be_opened_leave_the_old_ones():
    calls = []

    def reopen():
        calls.append(1)
        raise HyperfrontError("damaged")

    with serving(adding(1), reopen=reopen) as client:
        for count in (1, 2):  # the second begins when the first has failed
            client.reload()
            until(lambda count=count: len(calls) == count)
        assert client.post("/v2/models/add/infer", ASK)[1]["outputs"][0]["data"] == [8]


def test_a_second_reload_during_the_first_sees_the_newest_files():
    """It may have opened the files before they changed."""
    opening, go_on, numbers = threading.Event(), threading.Event(), iter([1, 2, 3])

    def reopen():
        number = next(numbers)
        opening.set()
        assert go_on.wait(LIMIT)
        return [adding(number)]

    with serving(adding(0), reopen=reopen) as client:
        client.reload()
        assert opening.wait(LIMIT)
        client.reload()
        client.reload()
        go_on.set()
        until(lambda: client.post("/v2/models/add/infer", ASK)[1]["outputs"][0]["data"] == [9])


def test_no_request_is_lost_while_models_are_reloaded(tmp_path):
    """Keep-alive connections ask without a pause, and new ones too, while SIGHUP brings new versions."""
    constant(tmp_path / "m" / "1.safetensors", 1.0)
    words = [f"m={tmp_path / 'm' / '1.safetensors'}", "--target", "tests.test_serve_models:net", "--input", "x:FP32:1"]
    ended, seen, errors = threading.Event(), [], []

    def ask(client: Client, *, keep: bool) -> None:
        try:
            with closing(http.client.HTTPConnection("127.0.0.1", client.port, timeout=LIMIT)) as connection:
                while not ended.is_set():
                    if not keep:
                        seen.append(client.post("/v2/models/m/infer", ASK)[1]["outputs"][0]["data"][0])
                        continue
                    connection.request("POST", "/v2/models/m/infer", json.dumps(ASK))
                    response = connection.getresponse()
                    document = json.loads(response.read())
                    assert response.status == 200, document
                    seen.append(document["outputs"][0]["data"][0])
        except Exception as error:
            errors.append(error)

    def reached(number: float) -> bool:
        return bool(errors) or seen[-50:] == [number] * 50

    with started(*words, "--workers", "2") as (client, process, _):
        threads = [threading.Thread(target=ask, args=(client,), kwargs={"keep": n % 4 > 0}) for n in range(4)]
        for thread in threads:
            thread.start()
        try:
            until(partial(reached, 1.0))
            for number in (2.0, 3.0):
                constant(tmp_path / "new.safetensors", number)
                (tmp_path / "new.safetensors").replace(tmp_path / "m" / "1.safetensors")
                process.send_signal(signal.SIGHUP)
                until(partial(reached, number))
        finally:
            ended.set()
            for thread in threads:
                thread.join()
    assert not errors
    assert {*seen} == {1.0, 2.0, 3.0}


def test_a_closed_terminal_ends_the_server(tmp_path):
    """SIGHUP says that too; a server that nobody can stop any more would keep its port."""
    constant(tmp_path / "m.safetensors", 1.0)
    code = (
        "import fcntl, termios; fcntl.ioctl(0, termios.TIOCSCTTY, 0); from hyperfront.apps.cli import main; "
        f"main(['serve', {str(tmp_path / 'm.safetensors')!r}, '--target', 'tests.test_serve_models:net', "
        "'--input', 'x:FP32:1', '--port', '0'])"
    )
    master, terminal = os.openpty()
    process = subprocess.Popen(
        [sys.executable, "-c", code],
        cwd=ROOT,
        stdin=terminal,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        env=os.environ | {"OMP_NUM_THREADS": "1"},
    )
    os.close(terminal)
    try:
        for line in process.stderr:
            if "startup complete" in line:
                break
        process.send_signal(signal.SIGHUP)  # the terminal is there
        for line in process.stderr:
            if '"reloaded"' in line:
                break
        os.close(master)
        master = None
        assert process.wait(LIMIT) is not None
    finally:
        if master is not None:
            os.close(master)
        process.kill()
        process.wait()
        process.stderr.close()
