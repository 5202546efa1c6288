"""``hyperfront serve`` as a user starts it: one process or several, until a signal."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import time
import warnings
from pathlib import Path

import numpy as np
import pytest
import torch
import tritonclient.http as triton

import hyperfront as hf
from hyperfront.apps.cli import main
from hyperfront.apps.serve import logs
from tests.helpers.server_process import started
from tests.helpers.waiting import LIMIT, until

ROOT = Path(__file__).parents[1]


def net() -> torch.nn.Module:
    return torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(12, 2))


@pytest.fixture(scope="module")
def run(tmp_path_factory) -> Path:
    """A run of a module of one's own, with data: 12 numbers of an image."""
    folder = tmp_path_factory.mktemp("serve") / "own"
    torch.manual_seed(0)
    x = torch.randn(64, 3, 4)
    losses = {
        "a": lambda output, batch: (output[:, 0] - batch[0].sum((1, 2))).square().mean(),
        "b": lambda output, batch: (output.sum(1) + batch[0].mean((1, 2))).square().mean(),
    }
    problem = hf.supervised((x,), (x,), losses=losses, reference=(50, 50))
    hf.fit(hf.wrap(net(), ["a", "b"], hidden=4), problem, epochs=1, batch_size=32, out=folder, callbacks=[])
    return folder


def test_a_module_of_ones_own_by_name_with_its_inputs_stated(run):
    words = [str(run), "--target", "tests.test_serve_process:net", "--input", "picture:FP32:3,4", "--name", "mine"]
    with started(*words, HYPERFRONT_API_KEY="k") as (client, process, log):
        x, key = np.ones((2, 3, 4), np.float32), {"Authorization": "Bearer k"}
        with triton.InferenceServerClient(client.address) as reader:
            picture = triton.InferInput("picture", [2, 3, 4], "FP32").set_data_from_numpy(x)
            reply = reader.infer("mine", [picture], parameters={"ray": "0.3,0.7"}, headers=key)
        expected = hf.load(run, net()).at([0.3, 0.7])(torch.from_numpy(x)).detach()
        np.testing.assert_allclose(reply.as_numpy("output"), expected, rtol=1e-5, atol=1e-6)
        status, point = client.post("/v1/select", {"minimize": "a"}, key)
        assert (status, point["refined"]) == (200, False)
        front = hf.Front.load(run / "front.json")
        assert point["losses"]["a"] == front.losses[:, 0].min()
        assert client.post("/v1/select", {"minimize": "a"})[0] == 401
        assert client.get("/v2", key | {"Host": "proxy.example"})[0] == 200
    assert process.returncode in (0, -signal.SIGTERM)
    lines = [json.loads(line) for line in log]
    assert lines[0]["event"] == "starting"
    assert "/v2/models/mine/infer" in lines[0]["try"]
    assert lines[0]["api_key"] == "required" and "$HYPERFRONT_API_KEY" in lines[0]["try"]
    assert any(line["event"] == "stopped" for line in lines)


def test_several_workers_answer_and_count_together(run):
    words = [str(run), "--target", "tests.test_serve_process:net", "--input", "x:FP32:3,4", "--workers", "2"]
    with started(*words) as (client, process, _):
        x = {"name": "x", "datatype": "FP32", "shape": [1, 3, 4], "data": [1] * 12}
        ask = {"parameters": {"ray": [0.5, 0.5]}, "inputs": [x]}
        assert client.get("/v2", {"Host": "evil.example"})[0] == 400
        answers = [client.post("/v2/models/own/infer", ask) for _ in range(40)]
        assert {status for status, _ in answers} == {200}
        assert len({json.dumps(reply) for _, reply in answers}) == 1
        counted, deadline = [], time.monotonic() + LIMIT
        while counted != ["40.0"] and time.monotonic() < deadline:  # a worker counts after it has answered
            text = client.call("GET", "/metrics")[2].decode()
            pattern = r'^hyperfront_requests_total{route="/v2/models/{name}/infer",status="200"} (\S+)'
            counted = re.findall(pattern, text, re.M)
        assert counted == ["40.0"]
        children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
        workers = [child for child in children if "spawn_main" in Path(f"/proc/{child}/cmdline").read_text()]
        assert len(workers) == 2
        os.kill(int(workers[0]), signal.SIGKILL)  # the other one continues, and its counts
        until(lambda: not running(workers[0]))
        assert {client.post("/v2/models/own/infer", ask)[0] for _ in range(10)} == {200}
        assert "hyperfront_cache_rays" in client.call("GET", "/metrics")[2].decode()
    until(lambda: not any(running(worker) for worker in workers))


def running(process: str) -> bool:
    """Whether a process is there and has not ended; one that nobody waits for is still listed."""
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def test_workers_end_when_the_process_that_started_them_is_killed(run):
    words = [str(run), "--target", "tests.test_serve_process:net", "--input", "x:FP32:3,4", "--workers", "2"]
    with started(*words) as (_, process, _):
        children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
        process.kill()
    until(lambda: not any(running(child) for child in children))


def test_a_port_that_is_taken_is_said_before_an_address_is(run, monkeypatch, capsys):
    monkeypatch.setattr(warnings, "showwarning", warnings.showwarning)
    monkeypatch.setattr(logs, "set_up", lambda level: None)  # it would keep the captured stream
    words = ["serve", str(run), "--target", "tests.test_serve_process:net", "--input", "x:FP32:3,4"]
    with socket.create_server(("127.0.0.1", 0)) as other, pytest.raises(SystemExit):
        main([*words, "--port", str(other.getsockname()[1])])
    printed = capsys.readouterr()
    assert "cannot listen" in printed.err and "another --port" in printed.err
    assert "starting" not in printed.out + printed.err


def test_an_empty_key_is_an_error_and_not_no_key(run, monkeypatch, capsys):
    monkeypatch.setattr(warnings, "showwarning", warnings.showwarning)
    monkeypatch.setenv("HYPERFRONT_API_KEY", "")
    with pytest.raises(SystemExit) as stop:
        main(["serve", str(run), "--target", "tests.test_serve_process:net", "--input", "x:FP32:3,4"])
    assert stop.value.code == 2
    assert "unset HYPERFRONT_API_KEY" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["nowhere"], "no checkpoint"),
        (["{run}"], "no code"),
        (["{run}", "--target", "tests.test_serve_process:net"], "the inputs of the module are unknown"),
        (["{run}", "--target", "tests.test_serve_process:net", "--input", "x:FP33:3,4"], "an input has the wrong form"),
        (["{run}", "--target", "tests.test_serve_process:net", "--input", "x:FP32:5"], "module fails for inputs"),
        (["{run}", "--target", "tests.test_serve_process:net", "--input", "ray:FP32:3,4"], "the name of the ray"),
        (["{run}", "--max-rows", "0"], "not positive"),
    ],
)
def test_mistakes_are_told_before_anything_listens(run, words, message, monkeypatch, capsys):
    monkeypatch.setattr(warnings, "showwarning", warnings.showwarning)  # the command has its own, which stays
    with pytest.raises(SystemExit) as stop:
        main(["serve", *(word.format(run=run) for word in words)])
    assert stop.value.code == 2
    assert message in capsys.readouterr().err
