"""Files made by somebody who means harm: they are refused with an error, run no code, and cost next to nothing."""

from __future__ import annotations

import ast
import copy
import importlib.util
import json
import os
import pickle
import resource
import socket
import struct
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from torch import nn

import hyperfront as hf
from hyperfront import export
from hyperfront.apps.cli import main
from hyperfront.errors import CheckpointError
from hyperfront.problem import Point
from hyperfront.problem.registry import build
from hyperfront.storage import checkpoint, provenance
from hyperfront.training.loading import import_factory

MARK = "executed"


class Bomb:
    """Leaves a mark when it is unpickled."""

    def __init__(self, folder: Path):
        self.folder = folder

    def __reduce__(self):
        return os.system, (f"touch {self.folder / MARK}",)


@pytest.fixture(scope="module")
def run(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("hostile") / "run"
    torch.manual_seed(0)
    problem = build("vlmop2")
    hf.fit(problem.model(hidden=4), problem, epochs=1, out=folder, validation_rays=3)
    return folder


def refused(path: Path, **options) -> str:
    with pytest.raises(hf.HyperfrontError) as caught:
        hf.load(path, **options)
    return str(caught.value)


def rewritten(run: Path, path: Path, change) -> Path:
    """The checkpoint of the run with its document changed, everything else being as it should."""
    tensors, document = checkpoint.read(run / "last.safetensors")
    change(document["model"])
    checkpoint.write(path, tensors, {key: document[key] for key in document if key not in ("format", "schema")})
    return path


# ---- no code ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["last.safetensors", "best.safetensors", "front.json", "config.json", "metrics.jsonl"])
@pytest.mark.parametrize("make", ["pickle", "torch"])
def test_a_pickle_in_the_place_of_any_file_of_a_run_is_not_executed(run, tmp_path, name, make, capsys):
    folder = tmp_path / "run"
    folder.mkdir()
    for file in run.iterdir():
        if file.is_file() and file.name != "previous.safetensors":  # which would be used instead of the last one
            (folder / file.name).write_bytes(file.read_bytes())
    if make == "pickle":
        (folder / name).write_bytes(pickle.dumps(Bomb(tmp_path)))
    else:
        torch.save({"model": Bomb(tmp_path)}, folder / name)
    for words in (["evaluate", str(folder)], ["export", str(folder), "--at", "0.5", "0.5", "--formats", "safetensors"]):
        try:
            main(words)
        except SystemExit as stop:
            assert stop.code == 2
    assert not (tmp_path / MARK).exists()
    if name.endswith(".safetensors"):
        assert "damaged" in refused(folder)


def test_names_of_factories_in_a_file_are_never_imported(run, tmp_path):
    (tmp_path / "trap.py").write_text(f"open({str(tmp_path / MARK)!r}, 'w')\ndef factory(): pass\n")

    def change(model):
        model["target"]["factory"] = model["factory"] = "trap:factory"
        model["record"] = {"problem": "trap:factory", "arguments": {}, "target": "trap:factory"}
        model["hypernet"]["kind"] = "trap:factory"

    path = rewritten(run, tmp_path / "x.safetensors", change)
    code = f"import sys; sys.path.insert(0, {str(tmp_path)!r})\nimport hyperfront as hf\nhf.load({str(path)!r})"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert "no built-in problem" in done.stderr and not (tmp_path / MARK).exists()


def test_a_problem_of_a_size_that_only_a_file_asks_for_is_never_made(tmp_path):
    model = build("fonseca", variables=2).model(hidden=4)
    model.record = {"problem": "fonseca", "arguments": {"variables": 10**8}, "convention": "inverse"}
    model.save(tmp_path / "huge.safetensors")
    for read in (hf.load, lambda path: hf.explore(path, target=Point(2))):
        with pytest.raises(CheckpointError, match="no problem should have"):
            read(tmp_path / "huge.safetensors")


def test_a_loader_is_written_with_literals_whatever_the_checkpoint_says(tmp_path):
    torch.manual_seed(0)
    model = hf.wrap(nn.Linear(2, 1), ['"""', "'\nimport os"], hidden=4)
    evil = f"'''\"\"\"); __import__('os').system('touch {tmp_path / MARK}'); ('{{'"
    model.record = {"problem": evil, "arguments": {evil: evil, "n": [1, {"x": evil}]}}
    _, loader = export.weights(model, [0.5, 0.5], tmp_path / "net.safetensors")
    tree = ast.parse(loader.read_text())
    calls = {ast.unparse(node.func) for node in ast.walk(tree) if isinstance(node, ast.Call)}
    assert calls == {
        "Path",
        "Path(__file__).with_name",
        "build",
        f"build({evil!r}, **{model.record['arguments']!r}).make_target",
        "module.load_state_dict",
        "load_file",
        "module.eval",
    }
    space: dict = {"__file__": str(loader)}
    exec(compile(tree, "loader", "exec"), space)
    assert isinstance(space["load"](nn.Linear(2, 1)), nn.Linear)
    with pytest.raises(hf.HyperfrontError, match="unknown problem"):
        space["load"]()
    assert not (tmp_path / MARK).exists()


# ---- the current folder ----------------------------------------------------------------------------------------------

DECOYS = ("gmpy2", "flint", "gmpy", "colorama", "opt_einsum", "dill", "pynvml", "pydot", "torchvision", "tree", "redis")
"""Modules that the libraries below us try to import, and that need not be installed."""
COMMAND = ["-P", "-c", "from hyperfront_command import main; main()"]  # -P: as in the installed script
EXPORT = ["export", "run", "--at", "0.5", "0.5", "--formats", "safetensors", "--out", "exported"]
COMMANDS = {
    "evaluate": [*COMMAND, "evaluate", "run", "--rays", "3"],
    "train": [*COMMAND, "train", "vlmop2", "--epochs", "1", "--rays-per-step", "4", "--rays", "3", "--out", "trained"],
    "explore": [*COMMAND, "explore", "run", "--static", "page.html"],
    "export": [*COMMAND, *EXPORT],
    "serve": [*COMMAND, "serve", "run", "--port"],
    "doctor": [*COMMAND, "doctor"],
    "module": ["-m", "hyperfront", "evaluate", "run", "--rays", "3"],
    "own target": [*COMMAND, *EXPORT, "--target", "mine:net"],
}


NET = 'from hyperfront.problem.registry import build\n\ndef net():\n    return build("vlmop2").make_target()\n'
LISTED = "import sys\nPATH = list(sys.path)\n\ndef path():\n    return list(sys.path), PATH\n"


@pytest.mark.parametrize("command", COMMANDS)
def test_no_module_of_the_current_folder_is_executed_unless_it_is_named(run, tmp_path, command):
    """A folder with a downloaded run may hold files with names that libraries try to import."""
    (tmp_path / "run").symlink_to(run)
    (tmp_path / "mine.py").write_text(NET)
    for name in DECOYS:
        if importlib.util.find_spec(name) is None:
            (tmp_path / f"{name}.py").write_text(
                f"open({str(tmp_path / MARK)!r}, 'a').write('{name} ')\nraise ImportError"
            )
    with socket.create_server(("127.0.0.1", 0)) as taken:  # so that the server ends before it listens
        words = [*COMMANDS[command], *([str(taken.getsockname()[1])] if command == "serve" else [])]
        environment = os.environ | {"PYTHONPATH": str(Path(hf.__file__).parents[1])}
        done = subprocess.run([sys.executable, *words], cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert not (tmp_path / MARK).exists(), (tmp_path / MARK).read_text()
    assert done.returncode == (2 if command == "serve" else 0), done.stderr


def test_the_current_folder_can_be_imported_from_only_while_a_factory_is(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "beside_us.py").write_text(
        "import sys\nPATH = list(sys.path)\ndef path(): return list(sys.path), PATH\n"
    )
    before = list(sys.path)
    called, imported = import_factory("beside_us:path")
    del sys.modules["beside_us"]
    assert imported == [*before, str(tmp_path)]
    assert called == sys.path == before
    with pytest.raises(hf.HyperfrontError):
        import_factory("beside_us:nothing")
    assert sys.path == before


@pytest.mark.parametrize("words", [("-m", "hyperfront"), ("-mhyperfront",), ("-Im", "hyperfront"), ("-m", "mine")])
def test_python_m_takes_the_current_folder_out_of_the_path_before_the_first_import(tmp_path, words):
    """Unless the package that Python was asked for is another one: then the folder is its own."""
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "__init__.py").write_text("import hyperfront")
    (tmp_path / "mine" / "__main__.py").write_text("import beside")
    (tmp_path / "beside.py").touch()
    for name in ("__future__", "hyperfront_command", "torch") if words[-1] != "mine" else ():
        (tmp_path / f"{name}.py").write_text(f"open({str(tmp_path / MARK)!r}, 'a').write('{name}')\nannotations = 0")
    environment = os.environ | {"PYTHONPATH": str(Path(hf.__file__).parents[1])}
    if words[0] == "-Im":
        environment.pop("PYTHONPATH")
    done = subprocess.run(
        [sys.executable, *words, "problems"], cwd=tmp_path, env=environment, capture_output=True, text=True
    )
    assert not (tmp_path / MARK).exists(), (tmp_path / MARK).read_text()
    assert done.returncode == 0, done.stderr


def git(folder: Path, *words: str) -> None:
    names = ["-c", "user.name=a", "-c", "user.email=a@b.invalid", "-c", "init.defaultBranch=main"]
    subprocess.run(["git", *names, *words], cwd=folder, check=True, capture_output=True)


@pytest.fixture
def repository(tmp_path, monkeypatch) -> Path:
    monkeypatch.chdir(tmp_path)
    git(tmp_path, "init")
    (tmp_path / "a.txt").write_text("a")
    git(tmp_path, "add", "a.txt")
    git(tmp_path, "commit", "-m", "Add a")
    return tmp_path


@pytest.mark.parametrize("key", ["core.fsmonitor", "core.hooksPath", "filter.evil.clean", "filter.evil.process"])
def test_no_program_that_a_repository_names_is_executed_for_the_provenance_of_a_run(repository, key):
    program = repository / "program"
    program.write_text(f"#!/bin/sh\ntouch {repository / MARK}\n")
    program.chmod(0o755)
    if key == "core.hooksPath":
        (repository / "hooks").mkdir()
        program.rename(repository / "hooks" / "post-index-change")
    git(repository, "config", key, str(repository / "hooks" if key == "core.hooksPath" else program))
    (repository / ".git" / "info").mkdir(exist_ok=True)
    (repository / ".git" / "info" / "attributes").write_text("* filter=evil\n")
    os.utime(repository / "a.txt", (1, 1))  # so that git compares its content
    commit = provenance.environment(torch.device("cpu"))["git"]
    assert not (repository / MARK).exists()
    assert ("unknown" in commit) == key.startswith("filter")


def test_the_provenance_of_a_run_has_the_commit_and_says_whether_files_have_changed(repository, monkeypatch):
    clean = provenance.environment(torch.device("cpu"))["git"]
    assert len(clean) == 40
    (repository / "new.txt").touch()
    assert provenance.environment(torch.device("cpu"))["git"] == clean
    (repository / "a.txt").write_text("b")
    assert provenance.environment(torch.device("cpu"))["git"] == f"{clean}-dirty"
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(repository))
    (repository / "below").mkdir()
    monkeypatch.chdir(repository / "below")
    assert provenance.environment(torch.device("cpu"))["git"] is None


# ---- paths -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("problem", "arguments"),
    [
        ("../../multi-mnist", {}),
        ("multi-mnist", {"data_dir": "/etc"}),
        ("multi-mnist", {"split": "../../etc"}),
        ("nyuv2", {"size": "../288x384"}),
        ("adult", {"gap": "/etc/passwd"}),
        ("vlmop2", {"data_dir": "."}),
    ],
)
def test_a_checkpoint_cannot_name_a_folder(run, tmp_path, problem, arguments):
    def change(model):
        model["record"] |= {"problem": problem, "arguments": arguments}

    refused(rewritten(run, tmp_path / "x.safetensors", change))


def test_names_of_tensors_are_no_paths(run, tmp_path):
    tensors, document = checkpoint.read(run / "last.safetensors")
    tensors["model.../../../outside"] = torch.ones(1)
    checkpoint.write(tmp_path / "x.safetensors", tensors, {"model": document["model"]})
    assert "outside" in refused(tmp_path / "x.safetensors")
    assert [path.name for path in tmp_path.iterdir()] == ["x.safetensors"]


# ---- sizes -----------------------------------------------------------------------------------------------------------

HUGE = 10**13


def huge(path: Path) -> list[Path]:
    """Files that declare far more than they hold."""
    size = struct.pack("<Q", HUGE)
    tensor = {"a": {"dtype": "F32", "shape": [HUGE], "data_offsets": [0, 4 * HUGE]}}
    empty = {"a": {"dtype": "F32", "shape": [HUGE], "data_offsets": [0, 0]}}
    overflow = {"a": {"dtype": "F64", "shape": [2**62, 2**62], "data_offsets": [0, 8]}}
    negative = {"a": {"dtype": "F32", "shape": [-1], "data_offsets": [0, 4]}}
    overlapping = {k: {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]} for k in "ab"}
    contents = [size, size + b"{" * 100]
    for header in (tensor, empty, overflow, negative, overlapping):
        text = json.dumps(header).encode()
        contents.append(struct.pack("<Q", len(text)) + text + bytes(8))
    files = [path / f"{number}.safetensors" for number in range(len(contents))]
    for file, content in zip(files, contents):
        file.write_bytes(content)
    return files


def test_headers_that_declare_huge_sizes_are_refused_without_the_memory(tmp_path):
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for file in huge(tmp_path):
        assert "damaged" in refused(file)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 50_000  # kB


SIZES = {
    "hidden": lambda m: m["hypernet"]["options"].update(hidden=10**9),
    "beyond int64": lambda m: m["hypernet"]["options"].update(hidden=10**30),
    "chunks": lambda m: m["hypernet"].update(kind="chunked", options={"chunk": 1, "hidden": 4, "chunks": 10**11}),
    "variables": lambda m: m["record"].update(arguments={"variables": 10**11}),
    "objectives": lambda m: m["record"].update(problem="dtlz2", arguments={"m": 10**5, "distance_variables": 1}),
    "terms": lambda m: m["target"]["assembly"].update(kind="low_rank", options={"terms": 10**11}),
    "rank": lambda m: m["target"]["assembly"].update(kind="low_rank", options={"rank": 10**11}),
    "table": lambda m: m["target"]["tensors"][0].update(shape=[10**13]),
}


@pytest.mark.parametrize("what", SIZES)
def test_a_document_cannot_ask_for_more_than_the_file_holds(run, tmp_path, what):
    path = rewritten(run, tmp_path / "x.safetensors", SIZES[what])
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    refused(path)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 50_000


# ---- anything --------------------------------------------------------------------------------------------------------

junk = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-3, 3),
    st.sampled_from([10**9, -(10**9), 10**30, 1.5, -0.0, "", "mlp", "x" * 1000, "../x", [], {}, [[]], {"a": 1}]),
)


def nodes(tree, path=()):
    """The places of a JSON tree."""
    yield path
    items = tree.items() if isinstance(tree, dict) else enumerate(tree) if isinstance(tree, list) else ()
    for key, value in items:
        yield from nodes(value, (*path, key))


@given(st.data())
@settings(
    max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture]
)
def test_an_altered_document_gives_an_error_or_the_same_model(run, tmp_path, data):
    tensors, document = checkpoint.read(run / "last.safetensors")
    model = copy.deepcopy(document["model"])
    place = data.draw(st.sampled_from([path for path in nodes(model) if path]))
    *parents, last = place
    parent = model
    for key in parents:
        parent = parent[key]
    if data.draw(st.booleans()):
        del parent[last]
    else:
        parent[last] = data.draw(junk)
    checkpoint.write(tmp_path / "x.safetensors", tensors, {"model": model})
    try:
        loaded = hf.load(tmp_path / "x.safetensors")
    except hf.HyperfrontError:
        return
    expected = hf.load(run / "last.safetensors")
    assert all(torch.equal(a, b) for a, b in zip(loaded.state_dict().values(), expected.state_dict().values()))


@given(st.data())
@settings(
    max_examples=100, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture]
)
def test_an_altered_front_gives_an_error_or_a_front_that_fits_together(run, tmp_path, data):
    document = json.loads((run / "front.json").read_text())
    document["truth"] = document["truth"] and document["truth"][:3]
    *parents, last = data.draw(st.sampled_from([path for path in nodes(document) if path]))
    parent = document
    for key in parents:
        parent = parent[key]
    parent[last] = data.draw(junk)
    (tmp_path / "front.json").write_text(json.dumps(document))
    try:
        front = hf.Front.load(tmp_path / "front.json")
    except hf.HyperfrontError:
        return
    assert front.rays.shape == front.losses.shape == (len(front), len(front.objectives))
    repr(front)
