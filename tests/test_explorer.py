"""The explorer without a browser: what it measures, predicts, stores, serves and refuses."""

from __future__ import annotations

import http.client
import json
import os
import re
import signal
import subprocess
import sys
import threading
import urllib.error
import urllib.parse
import urllib.request

import pytest
import safetensors.torch
import torch

import hyperfront as hf
from hyperfront.apps.cli import main
from hyperfront.apps.explorer import dense, document, page
from hyperfront.apps.explorer.baselines import read
from hyperfront.apps.explorer.download import plain_model
from hyperfront.apps.explorer.session import Session
from hyperfront.apps.shared.choice import Choice
from hyperfront.problem.registry import build
from hyperfront.training.runs import RunFolder
from hyperfront.zoo.nyuv2 import depth_of
from tests.helpers import explored
from tests.helpers.command import hyperfront
from tests.helpers.data import DATA
from tests.helpers.waiting import LIMIT

MINE = ["--target", "tests.helpers.explored:network", "--problem"]


@pytest.fixture(scope="module")
def fonseca(tmp_path_factory):
    return explored.toy(tmp_path_factory.mktemp("fonseca") / "run", "fonseca", variables=5)


@pytest.fixture(scope="module")
def own(tmp_path_factory):
    return explored.own(tmp_path_factory.mktemp("own") / "run")


@pytest.fixture(scope="module")
def served(own):
    """The address of a page about a problem with data."""
    exploration = hf.explore(own, explored.regression())
    yield exploration
    exploration.close()


def ask(exploration, path, **more):
    """Status and content of an answer."""
    try:
        with urllib.request.urlopen(urllib.request.Request(exploration.url + path, **more)) as answer:
            return answer.status, answer.read()
    except urllib.error.HTTPError as error:
        return error.code, error.read()


# ---- the dense front -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("m", [2, 3, 5, 7, 10])
def test_the_wanted_rays_reach_every_corner_and_the_middle(m):
    rays = dense.wanted(m)
    torch.testing.assert_close(rays.sum(1), torch.ones(len(rays), dtype=torch.float64))
    assert (torch.cdist(torch.eye(m, dtype=torch.float64), rays).amin(1) < 1e-9).all()
    assert (rays > 0).all(1).sum() >= 9 * m
    assert len(rays) <= dense.MOST + 9 * m


@pytest.mark.parametrize("m", [2, 3, 7])
def test_however_few_rays_are_taken_they_are_spread_evenly(m):
    rays, start = dense.wanted(m), torch.full((1, m), 1 / m, dtype=torch.float64)
    order = dense.coarse_to_fine(rays, start)
    for count in (5, 20, 60):
        taken = torch.cat([start, order[:count]])
        covering = torch.cdist(rays, taken).amin(1).max()
        packing = torch.pdist(taken).min()
        assert covering <= packing + 1e-12  # the farthest-first property


def test_the_front_is_measured_once_and_kept_in_the_run_folder(fonseca):
    first = hf.explore(fonseca).session
    first.refine()
    again = hf.explore(fonseca).session
    assert not len(dense.missing(again.front))
    measured = hf.evaluate(again.model, again.split, again.front.rays).losses  # other rays in one pass: other rounding
    torch.testing.assert_close(again.front.losses, measured, atol=1e-6, rtol=1e-5)
    assert len(again.front.rays) >= len(dense.wanted(2))


def test_a_front_of_another_checkpoint_is_not_used(fonseca, tmp_path):
    hf.explore(fonseca).session.refine()
    folder = RunFolder(explored.toy(tmp_path / "run", "fonseca", variables=3))
    (folder.path / dense.FILE).write_text((fonseca / dense.FILE).read_text())
    front = hf.explore(folder.path).session.front
    torch.testing.assert_close(front.losses, hf.Front.load(folder.front).losses)


def test_a_front_from_before_the_checkpoint_is_not_used(tmp_path):
    folder = RunFolder(explored.toy(tmp_path / "run", "vlmop2"))
    later = folder.front.stat().st_mtime + 10
    os.utime(folder.checkpoint(), (later, later))
    assert len(hf.explore(folder.path).session.front) == 2  # the corners, measured now


def test_a_front_that_is_interrupted_goes_on_where_it_was(tmp_path):
    folder = explored.toy(tmp_path / "run", "vlmop2")
    session = hf.explore(folder).session
    session.refine(lambda done, of: session.stop() if done == 11 else None)
    again = hf.explore(folder).session
    assert len(again.front) == 9 + 11
    assert len(dense.missing(again.front)) == len(dense.missing(hf.Front.load(folder / "front.json"))) - 11


def test_what_was_measured_beside_is_kept_when_it_is_stopped(tmp_path, monkeypatch):
    folder = explored.toy(tmp_path / "run", "vlmop2")
    session = hf.explore(folder).session
    enough, stored, measure = threading.Event(), threading.Event(), session._measure

    def slowly(rays, split):
        if len(session.front) == 9 + 6:
            enough.set()
            assert stored.wait(LIMIT)
        return measure(rays, split)

    monkeypatch.setattr(session, "_measure", slowly)
    session.refine_beside()
    assert enough.wait(LIMIT)
    session.stop()
    assert len(hf.explore(folder).session.front) == 9 + 6
    stored.set()
    session._beside.join()


# ---- answers ---------------------------------------------------------------------------------------------------------


def test_measured_is_what_evaluate_measures(own):
    session = hf.explore(own, explored.regression()).session
    ray = [0.37, 0.63]
    again = hf.evaluate(own.model, explored.regression().val, ray)
    found = session.measure(ray)
    assert torch.equal(found.losses, again.losses)
    assert torch.equal(found.scores["sharpness"], again.scores["sharpness"])


def test_answers_at_the_same_time_are_those_given_one_by_one(own):
    session = hf.explore(own, explored.regression()).session
    rays = [[k / 40, 1 - k / 40] for k in range(41)]

    def answers(ray):
        return session.predict(ray), session.plain(torch.tensor(ray)), session.measure(ray).losses

    alone = [answers(ray) for ray in rays]
    together: dict = {}

    def work(part):
        for k in part:
            together[k] = answers(rays[k])

    threads = [threading.Thread(target=work, args=(range(start, 41, 4),)) for start in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for k, (predicted, file, losses) in enumerate(alone):
        assert together[k][:2] == (predicted, file)
        assert torch.equal(together[k][2], losses)


def test_limits_are_kept_by_what_was_measured_and_the_best_is_best(own):
    session = hf.explore(own, explored.regression()).session
    session.refine()
    bound = float(session.front.losses[:, 1].median())
    found = session.select(Choice(minimize="left", subject_to={"right": ("<=", bound)}))
    assert found.values["right"] <= bound
    within = session.front.losses[session.front.losses[:, 1] <= bound]
    assert found.values["left"] <= within[:, 0].min() + 1e-6  # measured with other rays in one pass
    with pytest.raises(hf.HyperfrontError, match="nearest point has right ="):
        session.select(Choice(minimize="left", subject_to={"right": ("<=", -1.0)}))


@pytest.mark.parametrize("m", [2, 3])
def test_the_plain_model_is_the_one_at_the_ray(m, tmp_path):
    model = explored.own(tmp_path / "run", m).model
    ray = torch.full((m,), 1 / m, dtype=torch.float64)
    file = tmp_path / "model.safetensors"
    file.write_bytes(plain_model(model, ray))
    net = explored.network()
    net.load_state_dict(safetensors.torch.load_file(file))
    x = torch.randn(5, 4)
    torch.testing.assert_close(net(x), model.at(ray)(x), rtol=0, atol=0)


def test_a_run_without_a_folder_and_a_file_without_a_run_are_explored_too(own, tmp_path):
    model = hf.wrap(explored.network(), own.model.objectives, hidden=12)
    run = hf.fit(model, explored.regression(), epochs=1, batch_size=80, callbacks=[], validation_rays=2)
    from_memory = hf.explore(run, explored.regression())
    file = own.folder.best
    from_file = hf.explore(file, explored.regression(), target=explored.network())
    for exploration, loads, net in (
        (from_memory, "run.model", run.model.at([0.3, 0.7])),
        (from_file, f'hf.load("{file}", target=YourModule())', own.model.at([0.3, 0.7])),
    ):
        assert exploration.words["python"] == loads
        x, _ = exploration.session.samples.batch
        outputs = torch.tensor(exploration.session.predict([0.3, 0.7]))[:, 0]
        torch.testing.assert_close(outputs, net(x), atol=6e-5, rtol=0)


# ---- sample inputs ---------------------------------------------------------------------------------------------------


def session_of(name, **arguments):
    torch.manual_seed(0)
    problem = build(name, data_dir=DATA, **arguments)
    model = problem.model(hidden=12)
    model.record = {**problem.identity, "convention": "inverse"}
    return Session(model, problem)


@pytest.mark.data
@pytest.mark.parametrize(("name", "left", "right"), [("multi-mnist", "9", "9"), ("multi-fashion-mnist", "bag", "9")])
def test_composites_come_with_the_probabilities_of_the_plain_network(name, left, right):
    session = session_of(name, rows=300)
    shown = session.samples.document()
    (images, *labels) = next(iter(session.split.source.batches(9, torch.device("cpu"))))
    expected = [logits.softmax(-1) for logits in session.model.at([0.3, 0.7])(images / 255)]
    for k, heads in enumerate(session.predict([0.3, 0.7])):
        for side, chances in enumerate(heads):
            torch.testing.assert_close(torch.tensor(chances), expected[side][k], atol=6e-5, rtol=0)
            assert shown["items"][k]["truth"][side] == labels[side][k]
    assert [left in shown["heads"][0]["classes"], right in shown["heads"][1]["classes"]] == [True, True]


@pytest.mark.data
@pytest.mark.parametrize(("name", "column", "code"), [("adult", "sex", "Female"), ("default", "SEX", "2")])
def test_people_are_shown_as_in_the_file_and_the_gaps_are_those_of_the_front(name, column, code):
    session = session_of(name, rows=2000)
    shown, ray = session.samples.document(), [0.5, 0.3, 0.2]
    predicted, front = session.predict(ray), session.measure(ray)
    for person in shown["items"]:
        assert (person["fields"][column] == code) == (person["groups"] == [0])
    women, men = predicted["groupings"][0]
    for label, score in ((0, "fpr_gap"), (1, "fnr_gap")):
        shares = [sum(group["counts"][label][50:]) / sum(group["counts"][label]) for group in (women, men)]
        assert abs(shares[0] - shares[1]) == pytest.approx(float(front.scores[score]), abs=2e-4)
        means = [group["means"][label] for group in (women, men)]
        assert abs(means[0] - means[1]) == pytest.approx(float(front.losses[0, 1 + label]), abs=2e-4)
    rows = session.samples.shown
    logits = session.model.at(ray)(*(tensor[rows] for tensor in session.samples.inputs))
    torch.testing.assert_close(torch.tensor(predicted["rows"]), logits.sigmoid(), atol=6e-5, rtol=0)
    assert [person["truth"] for person in shown["items"]] == session.samples.labels[rows].int().tolist()


@pytest.mark.data
def test_scenes_come_with_classes_and_depth_of_the_plain_network():
    problem = build("nyuv2", size="72x96", rows=40, data_dir=DATA)
    torch.manual_seed(0)
    model = problem.model(hidden=2, batchnorm="batch")
    session = Session(model.eval(), problem)
    images = session.samples.batch
    output = session.model.at([0.5, 0.5])(problem.inputs(images))
    for k, scene in enumerate(session.predict([0.5, 0.5])):
        classes, levels = (picture(scene[kind]) for kind in ("segmentation", "depth"))
        assert torch.equal(classes.long(), output[k, :-1].argmax(0))
        meters = (levels.double() + 0.5) * (session.samples.document()["meters"] / 256)
        within = (depth_of(output)[k] > 0.1) & (depth_of(output)[k] < 9.9)
        assert (meters - depth_of(output)[k]).abs()[within].max() < 0.03
    truth = session.samples.document()["items"][0]["segmentation"]
    assert torch.equal(picture(truth).long(), torch.where(images[2][0] < 0, 255, images[2][0].long()))


def picture(encoded):
    import base64

    data = bytearray(base64.b64decode(encoded["bytes"]))
    return torch.frombuffer(data, dtype=torch.uint8).view(encoded["height"], encoded["width"])


def test_any_other_problem_shows_numbers_and_their_targets(own):
    session = hf.explore(own, explored.regression()).session
    x, y = session.samples.batch
    expected = session.model.at([0.4, 0.6])(x)
    for k, (item, outputs) in enumerate(zip(session.samples.document()["items"], session.predict([0.4, 0.6]))):
        torch.testing.assert_close(torch.tensor(outputs[0]), expected[k], atol=6e-5, rtol=0)
        torch.testing.assert_close(torch.tensor(item["inputs"][0]["numbers"]), x[k], atol=6e-5, rtol=0)
        torch.testing.assert_close(torch.tensor(item["targets"][0]), y[k], atol=6e-5, rtol=0)


# ---- files and servers -----------------------------------------------------------------------------------------------


def test_baselines_are_read_from_fronts_folders_and_results_and_must_fit(own, fonseca, tmp_path):
    folder = own.folder.path
    names = own.model.objectives
    for path in (folder, folder / "front.json"):
        found = read(path, names, "val")
        torch.testing.assert_close(found.front.losses, own.front.losses)
        assert found.name == "run"
    with pytest.raises(hf.HyperfrontError, match="other objectives"):
        read(fonseca, names, "val")
    (tmp_path / "theirs.csv").write_text("method,left,sharpness\ngrid,.5,-.2\ngrid,.4,\n")
    points = read(tmp_path / "theirs.csv", names, "val", scores=["sharpness"]).front
    assert points.losses[:, 0].tolist() == [0.5, 0.4] and points.losses[:, 1].isnan().all()
    assert points.scores["sharpness"].isnan().tolist() == [False, True]
    (tmp_path / "none.csv").write_text("method,left\ngrid,.5\n")
    with pytest.raises(hf.HyperfrontError, match="no points"):
        read(tmp_path / "none.csv", names, "val")
    result = json.loads((folder / "front.json").read_text())
    indicators = {"hypervolume": None, "uniformity": None, "nondominated": 1.0}
    measured = {"losses": result["losses"], "scores": result["scores"], **indicators}
    result = {
        "format": "hyperfront-result",
        "schema": 1,
        "problem": "p",
        "preset": "quick",
        "solver": "ls",
        "seed": 3,
        "settings": {},
        "parameters": 1,
        "seconds": {"training": 1.0},
        "objectives": [*names],
        "reference": [],
        "status": {},
        "convention": "weights",
        "rays": result["rays"],
        "environment": {},
        "fronts": {"test": measured, "val": measured},
    }
    (tmp_path / "ls.json").write_text(json.dumps(result))
    found = read(tmp_path / "ls.json", names, "val", "p")
    assert found.name == "phn-ls, quick, seed 3"
    with pytest.raises(hf.HyperfrontError, match="another problem"):
        read(tmp_path / "ls.json", names, "val", "q")
    torch.testing.assert_close(found.front.losses, own.front.losses)


@pytest.mark.parametrize("ray", ["", "1", "1,2,3", "a,b", "nan,1", "-1,2", "0,0", "inf,1", "1e999,1", "-0.5,-0.5"])
@pytest.mark.parametrize("route", ["predict", "measure", "model"])
def test_what_is_no_ray_is_refused_with_a_reason(served, route, ray):
    status, content = ask(served, f"api/{route}?ray={ray}")
    assert status == 422
    assert len(json.loads(content)["text"]) > 10


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"[]",
        b'{"minimize": "left", "limits": {}}',
        b'{"minimize": "nothing", "subject_to": {}}',
        b'{"minimize": "left", "subject_to": {"right": ["<", 1]}}',
        b'{"minimize": "left", "subject_to": {"right": ["<=", "x"]}}',
        b'{"minimize": "left", "subject_to": {"right": ["<=", NaN]}}',
        b'{"minimize": "left", "subject_to": {"right": ["<=", -3]}}',
        b'{"minimize": "left", "subject_to": {"nothing": ["<=", 1]}}',
    ],
)
def test_limits_that_cannot_be_are_refused_with_a_reason(served, body):
    status, content = ask(served, "api/select", data=body, headers={"Content-Type": "application/json"})
    assert status == 422
    assert json.loads(content)


def test_entries_that_do_not_sum_to_one_are_brought_there(served):
    whole, scaled = (json.loads(ask(served, f"api/measure?ray={ray}")[1]) for ray in ("0.25,0.75", "1e300,3e300"))
    assert whole == scaled


def answer(served, path: str, headers: dict[str, str]) -> tuple[int, http.client.HTTPMessage]:
    connection = http.client.HTTPConnection(urllib.parse.urlparse(served.url).netloc)
    try:
        connection.request("GET", path, headers=headers)
        found = connection.getresponse()
        return found.status, found.headers
    finally:
        connection.close()


def test_only_requests_to_this_machine_are_answered(served):
    url = urllib.parse.urlparse(served.url)
    port, hosts = url.port, ("localhost", "127.0.0.1", "[::1]", "LOCALHOST")
    for name in (*hosts, *(f"{host}:{port}" for host in hosts)):
        assert answer(served, f"{url.path}api/front", {"Host": name})[0] == 200
    for name in ("evil.example", f"evil.example:{port}", "localhost.evil.example", "[::1].evil.example", ""):
        assert answer(served, f"{url.path}api/front", {"Host": name})[0] == 400


def test_only_those_who_know_its_address_reach_the_page(served):
    path = urllib.parse.urlparse(served.url).path
    assert len(path) > 20
    for wrong in ("/", "/api/front", path[:-1], path[:-2] + "/", "/" + path, path[:-2] + "~/api/front"):
        assert answer(served, wrong, {})[0] == 403, wrong


def test_foreign_pages_may_link_to_the_page_but_neither_use_nor_show_it(served):
    path, foreign = urllib.parse.urlparse(served.url).path, {"Sec-Fetch-Site": "cross-site"}
    assert answer(served, f"{path}api/measure?ray=0.5,0.5", foreign)[0] == 403
    assert answer(served, f"{path}api/measure?ray=0.5,0.5", {"Sec-Fetch-Site": "same-origin"})[0] == 200
    status, headers = answer(served, path, foreign)
    assert status == 200
    assert "frame-ancestors 'self' http://localhost:*" in headers["Content-Security-Policy"]
    assert (headers["X-Content-Type-Options"], headers["Referrer-Policy"]) == ("nosniff", "no-referrer")


def test_the_page_is_one_text_that_names_no_other_address(served):
    text = page.page(document.static(served.session, **served.words))
    assert not re.search(r"(src|href)\s*=\s*[\"'](?!data:|#)", text)
    assert not re.search(r"@import|url\((?!#)", text)
    assert "{{" not in text


def test_a_page_that_was_closed_can_be_opened_again(fonseca):
    exploration = hf.explore(fonseca)
    for _ in range(2):
        with urllib.request.urlopen(exploration.url) as answer:
            assert answer.status == 200
        exploration.close()


def test_a_taken_port_is_left_to_who_has_it(served):
    port = urllib.parse.urlparse(served.url).port
    other = served.serve(port=port)
    assert urllib.parse.urlparse(other.url).port > port
    other.socket.close()


def test_the_command_serves_until_ctrl_c(fonseca):
    command = [sys.executable, "-u", "-c", "from hyperfront.apps.cli import main; main()", "explore", str(fonseca)]
    with subprocess.Popen([*command, "--port", "0"], stdout=subprocess.PIPE, text=True, env=os.environ) as process:
        url = re.match(r"(http\S+)", process.stdout.readline())[1]
        with urllib.request.urlopen(url) as answer:
            assert b"hyperfront" in answer.read()
        process.send_signal(signal.SIGINT)
        rest, _ = process.communicate(timeout=LIMIT)
    assert process.returncode == 0
    assert "stopped" in rest


def test_the_command_writes_a_page(own, tmp_path):
    words = ["explore", str(own.folder.path), "--target", "tests.helpers.explored:network", "--problem"]
    text = hyperfront(*words, "tests.helpers.explored:regression", "--static", str(tmp_path / "p.html"), folder=".")
    assert "it needs no server" in text
    assert (tmp_path / "p.html").stat().st_size > 50_000


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "--target package.module:factory"),
        (["--target", "tests.helpers.explored:network"], "your own problem"),
        (
            ["--target", "tests.helpers.explored:network", "--problem", "tests.helpers.explored:network"],
            "made no problem",
        ),
        (
            [
                "--target",
                "tests.helpers.explored:network",
                "--problem",
                "tests.helpers.explored:regression",
                "--baselines",
                ".",
            ],
            "front",
        ),
    ],
)
def test_the_command_explains_mistakes(own, words, message, capsys):
    with pytest.raises(SystemExit) as stop:
        main(["explore", str(own.folder.path), *words])
    assert stop.value.code == 2
    assert message in capsys.readouterr().err
