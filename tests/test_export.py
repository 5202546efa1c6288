"""Exported files, run by those who will run them: onnxruntime, torch.export, and a Python without hyperfront."""

from __future__ import annotations

import operator
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import onnxruntime
import pytest
import torch
from safetensors.torch import load_file
from torch import Tensor, nn

import hyperfront as hf
from hyperfront import export
from hyperfront.apps.cli import main
from hyperfront.export.agreement import compare
from hyperfront.export.int8 import Int8Linear
from hyperfront.problem.registry import build
from hyperfront.storage.nests import map_tensors, tensors
from hyperfront.training import Callback
from hyperfront.zoo.enet import ENet
from hyperfront.zoo.fairness import TabularNet
from hyperfront.zoo.lenet import LeNet
from hyperfront.zoo.resnet import ResNet18
from tests.helpers.data import DATA
from tests.helpers.modules import CASES, ConvNet, TiedTransformer, mlp
from tests.helpers.runs import problem as own_problem
from tests.helpers.runs import run as train_own


def generator() -> torch.Generator:
    return torch.Generator().manual_seed(0)


def model_of(module: nn.Module, x, m: int = 2, **options) -> hf.ParetoModel:
    """A front of the module, ready for prediction."""
    torch.manual_seed(0)
    model = hf.wrap(module, [f"l{j}" for j in range(m)], **options)
    model.calibrate([x])
    return model.eval()


def open_onnx(path) -> Callable[..., list[Tensor]]:
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])

    def run(*values: Tensor) -> list[Tensor]:
        feed = {slot.name: value.numpy() for slot, value in zip(session.get_inputs(), values, strict=True)}
        return [torch.from_numpy(found) for found in session.run(None, feed)]

    return run


def open_pt2(path) -> Callable[..., list[Tensor]]:
    module = torch.export.load(path).module()
    return torch.no_grad()(lambda *values: tensors(module(*values)))


def run_onnx(path, ray, x: list[Tensor]) -> list[Tensor]:
    return open_onnx(path)(*([] if ray is None else [torch.as_tensor(ray, dtype=torch.float32)]), *x)


def run_pt2(path, ray, x: list[Tensor]) -> list[Tensor]:
    return open_pt2(path)(*([] if ray is None else [torch.as_tensor(ray, dtype=torch.float32)]), *x)


def agree(found: list[Tensor], expected, tolerance: float = 1e-5, share: float = 0) -> None:
    """At most a ``share`` of the numbers may differ by more than the tolerance."""
    for a, b in zip(found, tensors(expected), strict=True):
        assert a.dtype == b.dtype and a.shape == b.shape
        assert ((a - b).abs() > tolerance * max(1, b.abs().max())).double().mean() <= share


def rows_of(x, count: int):
    """Other inputs of the same kind, ``count`` rows of them."""
    order = torch.randint(len(tensors(x)[0]), (count,), generator=generator())
    return map_tensors(lambda t: t[order].flip(-1) if t.is_floating_point() else t[order], x)


# ---- the four networks of the paper ----------------------------------------------------------------------------------

IMAGES = torch.rand(8, 1, 36, 36, generator=generator())
PEOPLE = (torch.randn(8, 6, generator=generator()), torch.randint(12, (8, 2), generator=generator()))
PAPER = {
    "LeNet": (LeNet, IMAGES, 2, {}),
    "ResNet18, chunked": (ResNet18, IMAGES, 2, {"hypernet": "chunked", "hidden": 20, "chunk": 10_000}),
    "ENet": (lambda: ENet(14), torch.rand(8, 3, 32, 48, generator=generator()) * 2 - 1, 2, {"hidden": 9}),
    "fairness MLP": (lambda: TabularNet(6, [5, 7]), PEOPLE, 3, {"generate": "layers.*"}),
}


@pytest.mark.parametrize("name", PAPER)
def test_a_front_of_the_papers_networks_runs_within_1e_5_of_pytorch(name, tmp_path):
    make, x, m, options = PAPER[name]
    torch.manual_seed(2)
    model = model_of(make(), x, m, **options)
    graph = export.graph(model, x)
    runners = [
        open_pt2(export.formats.write_pt2(graph, tmp_path / "a.pt2")),
        open_onnx(export.formats.write_onnx(graph, tmp_path / "a.onnx")),
    ]
    outputs = []
    for ray, count in ([0.2, 0.5, 0.3], 1), ([0.7, 0.1, 0.2], 5):
        ray = torch.tensor(ray[:m]) / sum(ray[:m])
        inputs = rows_of(x, count)
        with torch.no_grad():
            expected = map_tensors(lambda t: t[0], model(inputs, ray))
        for run in runners:
            # where two values are equal up to rounding, ENet may find the maximum in another place
            agree(run(ray, *tensors(inputs)), expected, share=0.001 if name == "ENet" else 0)
        outputs.append(tensors(expected)[0][0])
    assert (outputs[0] - outputs[1]).abs().max() > 1e-3  # the ray is no constant of the graph


def test_the_graph_of_lenet_is_made_of_pytorchs_own_operations():
    x = torch.rand(64, 1, 36, 36)  # enough of them for the fused operation, if it were not for the export
    program = export.graph(model_of(LeNet(), x), x).program
    called = {node.target for node in program.graph.nodes if node.op == "call_function"}
    assert torch.ops.aten.max_pool2d.default in called
    assert {t.namespace for t in called if isinstance(t, torch._ops.OpOverload)} == {"aten"}
    assert all(isinstance(t, torch._ops.OpOverload) or t is operator.getitem for t in called)


# ---- any module, any hypernetwork ------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["LSTM", "tied Transformer", "two inputs, dict output"])
def test_modules_of_all_kinds_are_exported_with_their_inputs_and_outputs_by_name(name, tmp_path):
    module, x = CASES[name]()
    model = model_of(module, x)
    file = export.onnx(model, tmp_path / "front.onnx", x)
    inputs = rows_of(x, 3)
    with torch.no_grad():
        agree(run_onnx(file, [0.3, 0.7], tensors(inputs)), map_tensors(lambda t: t[0], model(inputs, [0.3, 0.7])))
    session = onnxruntime.InferenceSession(str(file), providers=["CPUExecutionProvider"])
    names = [slot.name for slot in (*session.get_inputs(), *session.get_outputs())]
    assert (
        names
        == {
            "LSTM": ["ray", "x", "output"],
            "tied Transformer": ["ray", "tokens", "output"],
            "two inputs, dict output": ["ray", "a", "b", "sum", "hidden"],
        }[name]
    )
    assert all(slot.shape[0] == "batch" for slot in session.get_inputs()[1:])


@pytest.mark.parametrize(
    ("m", "options"),
    [
        (2, {"batchnorm": "batch"}),
        (3, {"hypernet": "chunked", "chunk": 64}),
        (3, {"hypernet": "low_rank"}),
        (3, {"hypernet": "low_rank", "linear": True}),
        (2, {"hypernet": "film", "batchnorm": "shared"}),
        (2, {"hypernet": nn.Linear(2, 303)}),
    ],
)
def test_all_hypernetworks_and_assemblies_are_exported(m, options, tmp_path):
    x = torch.randn(6, 1, 9, 9, generator=generator())
    model = model_of(ConvNet(), x, m, **options)
    ray = torch.arange(1.0, m + 1)
    graph = export.graph(model, x)
    assert compare(graph, export.formats.write_onnx(graph, tmp_path / "a.onnx")).beyond == 0
    with torch.no_grad():
        agree(run_onnx(tmp_path / "a.onnx", ray, [x]), model(x, ray / ray.sum())[0])  # the graph normalizes


def test_a_network_at_a_ray_is_exported_without_a_ray_and_the_model_goes_on_working(tmp_path):
    x = torch.randn(6, 1, 9, 9, generator=generator())
    model = model_of(ConvNet(), x)
    with torch.no_grad():
        before, expected = model(x, hf.rays(3, m=2)), model.at([0.3, 0.7])(x)
        agree(run_onnx(export.onnx(model, tmp_path / "a.onnx", x, ray=[0.3, 0.7]), None, [x]), expected)
        agree(run_pt2(export.pt2(model, tmp_path / "a.pt2", x, ray=[0.3, 0.7]), None, [x]), expected)
        export.pt2(model, tmp_path / "b.pt2", x[:1])  # an example of one row does not fix the batch
        agree(run_pt2(tmp_path / "b.pt2", [0.3, 0.7], [x]), expected)
        graph = export.graph(model, x)
        graph.program
        assert torch.equal(
            graph({"ray": torch.tensor([0.3, 0.7]), "x": x})[0], graph.module(torch.tensor([0.3, 0.7]), x)
        )
        torch.testing.assert_close(graph.module(torch.tensor([0.3, 0.7]), x), expected)  # traced, and still itself
        assert torch.equal(model(x, hf.rays(3, m=2)), before)


def test_no_data_leave_the_house(tmp_path):
    run = train_own(tmp_path / "run", epochs=1, callbacks=(Callback(),))
    for path in (
        export.pt2(run.model, tmp_path / "a.pt2", own_problem()),
        export.pt2(run.model, tmp_path / "b.pt2", own_problem(), ray=[0.5, 0.5]),
        export.onnx(run.model, tmp_path / "a.onnx", own_problem()),
    ):
        content = path.read_bytes()
        rows = [row.numpy().tobytes() for row in own_problem().val.source.data[0][:4]]
        assert not any(row in content for row in rows), path.name


class Undecided(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(3, 1)

    def forward(self, x):
        return self.layer(x) if x.sum() > 0 else -self.layer(x)


def test_what_cannot_be_traced_is_an_error_that_says_why(tmp_path):
    model = model_of(Undecided(), torch.ones(2, 3))
    with pytest.raises(hf.HyperfrontError, match="cannot trace") as caught:
        export.pt2(model, tmp_path / "a.pt2", torch.ones(2, 3))
    assert "data-dependent" in str(caught.value)
    assert not list(tmp_path.iterdir())


# ---- analytic problems -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["fonseca", "zdt3", "dtlz2"])
def test_an_analytic_problem_gives_its_point_and_its_losses(name, tmp_path):
    problem = build(name)
    torch.manual_seed(0)
    model = problem.model(hidden=8)
    ray = hf.rays(5, m=model.m)[1]
    theta, losses = run_onnx(export.onnx(model, tmp_path / "a.onnx", problem), ray, [])
    expected = hf.evaluate(model, problem, ray[None])
    torch.testing.assert_close(theta, model.at(ray)().detach(), atol=1e-6, rtol=1e-5)
    torch.testing.assert_close(losses.double(), expected.losses[0], atol=1e-5, rtol=1e-5)
    again = run_pt2(export.pt2(model, tmp_path / "a.pt2", problem, ray=ray), None, [])
    agree(again, [theta, losses])


# ---- plain modules ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("make", [ConvNet, TiedTransformer])
def test_the_loader_works_where_there_is_no_hyperfront(make, tmp_path):
    x = CASES["conv net with BatchNorm" if make is ConvNet else "tied Transformer"]()[1]
    model = model_of(make(), x)
    export.weights(model, [0.2, 0.8], tmp_path / "net.safetensors")
    torch.save(x, tmp_path / "x.pt")
    code = (
        "import sys; sys.modules['hyperfront'] = None\n"
        f"import torch; from net import load; from tests.helpers.modules import {make.__name__} as Net\n"
        "module = load(Net()); assert not module.training\n"
        "torch.save(module(torch.load('x.pt')).detach(), 'y.pt')"
    )
    paths = os.pathsep.join([str(tmp_path), os.path.dirname(os.path.dirname(__file__))])
    subprocess.run([sys.executable, "-c", code], cwd=tmp_path, check=True, env=os.environ | {"PYTHONPATH": paths})
    with torch.no_grad():
        torch.testing.assert_close(torch.load(tmp_path / "y.pt"), model.at([0.2, 0.8])(x), rtol=0, atol=1e-5)
    assert load_file(tmp_path / "net.safetensors").keys() == make().state_dict().keys()


def test_a_plain_file_is_told_apart_from_a_front(tmp_path):
    model = model_of(nn.Linear(3, 1), torch.ones(2, 3))
    path, _ = export.weights(model, [0.5, 0.5], tmp_path / "net.safetensors")
    with pytest.raises(hf.HyperfrontError, match="network at one ray"):
        hf.load(path, target=nn.Linear(3, 1))
    with pytest.raises(hf.HyperfrontError, match=r"NAME\.safetensors"):
        export.weights(model, [0.5, 0.5], tmp_path / "net.pickle")
    conv = model_of(ConvNet(), torch.randn(6, 1, 9, 9), batchnorm="batch")
    with pytest.raises(hf.HyperfrontError, match="cannot be stored as weights"):
        export.weights(conv, [0.5, 0.5], tmp_path / "conv.safetensors")


def test_the_lines_of_the_documentation_run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    text = (Path(__file__).parents[1] / "docs" / "export.md").read_text().partition("## From Python")[2]
    x = torch.randn(6, 5, generator=generator())
    names = {"model": model_of(mlp(), x), "x": x, "ray": [0.4, 0.6], "front": None}
    exec(re.search(r"```python\n(.*?)```", text, flags=re.DOTALL)[1], names)
    assert {path.name for path in tmp_path.iterdir()} == {"net.safetensors", "net.py", "front.onnx", "net.pt2"}
    assert names["text"].startswith("# Sequential for every trade-off between l0, l1")


# ---- int8 ------------------------------------------------------------------------------------------------------------


def test_int8_heads_change_theta_by_no_more_than_half_a_step_for_each_feature():
    torch.manual_seed(0)
    layer, z = nn.Linear(40, 300), torch.randn(7, 40)
    with torch.no_grad():
        layer.weight.mul_(torch.logspace(-3, 3, 300)[:, None])  # rows of very different size
        layer.weight[5] = 0
        small = Int8Linear(layer)
        allowed = z.abs().sum(1, keepdim=True) * small.scale / 2
        assert ((small(z) - layer(z)).abs() <= allowed * 1.01 + 1e-5 * layer(z).abs()).all()
    assert small.weight.dtype == torch.int8 and small.weight.abs().amax(1).unique().tolist() == [0, 127]


def test_an_int8_front_is_a_quarter_of_the_size_and_close(tmp_path):
    model = model_of(LeNet(), IMAGES, hidden=50)
    small = export.int8(model)
    sizes = []
    for name, made in (("whole", model), ("small", small)):
        file = export.onnx(made, tmp_path / f"{name}.onnx", IMAGES)
        sizes.append(file.stat().st_size)
        with torch.no_grad():
            agree(run_onnx(file, [0.4, 0.6], [IMAGES]), map_tensors(lambda t: t[0], made(IMAGES, [0.4, 0.6])))
    assert sizes[1] < 0.3 * sizes[0]
    whole, rounded = (made.weights([0.4, 0.6]) for made in (model, small))
    assert 0 < (whole - rounded).norm() < 0.01 * whole.norm()
    with pytest.raises(hf.HyperfrontError, match="no heads"):
        export.int8(model_of(ConvNet(), torch.randn(6, 1, 9, 9), hypernet="low_rank", linear=True))


# ---- the card --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("batchnorm", "words"), [("grid", "a grid of rays"), ("batch", "what else is in it")])
def test_the_card_says_what_batchnorm_looks_at(batchnorm, words):
    model = hf.wrap(ConvNet(), ["a", "b"], hidden=4, batchnorm=batchnorm)
    assert words in export.card(model, None, files={})


def test_a_card_of_hostile_names_holds_no_table_link_or_html_of_theirs():
    names = ["a | b", "<script>x</script>"]
    torch.manual_seed(0)
    model = hf.wrap(nn.Linear(3, 1), names, hidden=8)
    model.record = {"problem": "x\n# Free money\n[click](http://x)", "arguments": {"`a`": "|"}, "solver": "<b>"}
    text = export.card(model, None, files={"model.onnx": "graph"}, training={"<i>": "# x"})
    assert "<" not in text and "\n# Free" not in text and not re.search(r"(?<!\\)\]\(", text)
    rows = [line for line in text.splitlines() if line.startswith("|") and "minimized" in line]
    assert [len(re.findall(r"(?<!\\)\|", row)) for row in rows] == [5, 5]


# ---- the command -----------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def toy(tmp_path_factory):
    folder = tmp_path_factory.mktemp("toy")
    torch.manual_seed(0)
    problem = build("vlmop2")
    hf.fit(problem.model(hidden=16), problem, epochs=3, rays_per_step=8, out=folder / "run", validation_rays=9)
    return folder / "run"


def test_export_at_a_ray_writes_three_formats_and_a_card_whose_code_runs(toy, capsys):
    main(["export", str(toy), "--at", "0.3", "0.7"])
    folder = toy / "export" / "at-0.3-0.7"
    files = {path.name for path in folder.iterdir()}
    assert files == {"model.safetensors", "model.py", "model.pt2", "model.onnx", "README.md"}
    assert "equal to PyTorch" in capsys.readouterr().out
    text = (folder / "README.md").read_text()
    for section in ("Files", "Data", "Objectives", "Rays", "Front", "Metrics", "Training", "Limits"):
        assert f"\n## {section}\n" in text
    point = hf.load(toy).at([0.3, 0.7])().detach()
    outputs = run_blocks(text, folder)
    assert len(outputs) == 3
    for found in outputs:
        first = found["theta"] if isinstance(found, dict) else found[0] if isinstance(found, list) else found
        torch.testing.assert_close(torch.as_tensor(first).detach(), point)
    main(["export", str(toy), "--at", "0.3", "0.7", "--formats", "safetensors"])
    assert (toy / "export" / "at-0.3-0.7-2" / "model.py").exists()  # nothing is overwritten


def run_blocks(text: str, folder, **names) -> list:
    """What the Python blocks of a card leave as ``outputs``."""
    found = []
    for block in re.findall(r"```python\n(.*?)```", text, flags=re.DOTALL):
        code = f"import sys, os\nos.chdir({str(folder)!r})\nsys.path.insert(0, {str(folder)!r})\n{block}"
        before, path, modules = os.getcwd(), list(sys.path), set(sys.modules)
        try:
            space = dict(names)
            exec(code, space)  # our own text
            found.append(space["outputs"])
        finally:
            os.chdir(before)
            sys.path[:] = path
            for module in set(sys.modules) - modules:
                if module == "model":
                    del sys.modules[module]
    return found


def test_export_of_a_front_with_int8_heads_prints_what_they_cost(toy, tmp_path, capsys):
    main(["export", str(toy), "--front", "--int8", "--formats", "pt2", "--out", str(tmp_path / "out")])
    text = " ".join(capsys.readouterr().out.split())
    after, before, lost = (
        float(x) for x in re.search(r"hypervolume (\S+) instead of (\S+), a loss of (\S+)", text).groups()
    )
    front = hf.Front.load(toy / "front.json")
    problem = build("vlmop2")
    small = hf.evaluate(export.int8(hf.load(toy)), problem, front.rays)
    assert before == pytest.approx(front.hypervolume(), rel=1e-5)
    assert after == pytest.approx(small.hypervolume(), rel=1e-5)
    assert lost == pytest.approx(before - after, abs=0.05 * abs(before - after) + 1e-6)
    assert f"{after:.6g}" in (tmp_path / "out" / "README.md").read_text()
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == ["README.md", "model.pt2"]


def test_a_run_of_the_users_own_is_exported_with_their_module_and_problem(tmp_path, monkeypatch, capsys):
    run = train_own(tmp_path / "run", epochs=2)
    names = ["--target", "tests.helpers.runs:Net", "--problem", "tests.helpers.runs:problem"]
    main(["export", str(tmp_path / "run"), "--front", "--formats", "onnx", "--out", str(tmp_path / "f"), *names])
    x = own_problem().val.source.data[0]
    with torch.no_grad():
        agree(run_onnx(tmp_path / "f" / "model.onnx", [0.6, 0.4], [x]), run.model.eval()(x, [0.6, 0.4])[0])
    text = (tmp_path / "f" / "README.md").read_text()
    assert "validation data" in text and "BatchNorm" in text
    assert len(run_blocks(text, tmp_path / "f", input=x.numpy(), x=x.numpy())) == 1


@pytest.mark.data
def test_a_run_on_real_data_is_exported_and_measured(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("HYPERFRONT_DATA", str(DATA))
    monkeypatch.chdir(tmp_path)
    main(["train", "adult", "--preset", "smoke", "--epochs", "1", "--out", "run"])
    capsys.readouterr()
    main(["export", "run", "--front", "--int8", "--formats", "onnx", "--rays", "6", "--out", "front"])
    text = " ".join(capsys.readouterr().out.split())
    assert "at 6 rays of the validation data" in text and "graph for ONNX runtimes, within" in text
    card = (tmp_path / "front" / "README.md").read_text()
    for fact in ("CC BY 4.0", "perfectly fair", "heads in int8", "| `numbers` | float32 | [batch, 6] |", "accuracy"):
        assert fact in card
    main(["export", "run", "--at", "0.6", "0.2", "0.2", "--formats", "safetensors", "--out", "net"])
    monkeypatch.setenv("HYPERFRONT_DATA", str(tmp_path))  # without the data, the weights can be exported all the same
    main(["export", "run", "--at", "0.6", "0.2", "0.2", "--formats", "safetensors", "--out", "again"])
    assert (tmp_path / "net" / "model.safetensors").read_bytes() == (tmp_path / "again/model.safetensors").read_bytes()
    assert "Not measured" in (tmp_path / "again" / "README.md").read_text()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "--at RAY for one network, or --front"),
        (["--at", "0.5", "0.5", "--front"], "--at RAY for one network, or --front"),
        (["--at", "0.5", "0.5", "--int8"], "no heads"),
        (["--front", "--rays", "5"], "add --int8"),
        (["--front", "--formats", "safetensors"], "a front is a graph"),
        (["--at", "0.5", "0.3", "0.2"], "wrong shape"),
        (["--at", "0.5", "nan"], "NaN"),
        (["--front", "--out", "."], "nothing is overwritten"),
    ],
)
def test_mistakes_are_answered_and_leave_nothing_behind(toy, tmp_path, words, message, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit):
        main(["export", str(toy), *words])
    assert message in " ".join(capsys.readouterr().err.split())
    assert not list(tmp_path.iterdir())


def test_an_export_that_fails_leaves_no_folder(toy, tmp_path, monkeypatch, capsys):
    def fail(*_, **__):
        raise RuntimeError("no such operator")

    monkeypatch.setattr(torch.onnx, "export", fail)
    with pytest.raises(SystemExit):
        main(["export", str(toy), "--front", "--out", str(tmp_path / "out")])
    assert "cannot be written as ONNX" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())
