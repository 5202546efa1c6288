"""Every block of code in the README runs, and so do the commands of docs/problems.md; numbers are those of files."""

from __future__ import annotations

import itertools
import re
import shlex
import subprocess
from pathlib import Path
from statistics import fmean

import pytest
import torch

import hyperfront as hf
from hyperfront.comparison import METHODS
from reproduction import ITEMS, Store
from tests.helpers.command import hyperfront, reproduction
from tests.helpers.data import DATA

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text()
PROBLEMS, RESULTS = ((ROOT / "docs" / f"{name}.md").read_text() for name in ("problems", "results"))


def blocks(language: str, text: str = README) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", text, flags=re.DOTALL)


def test_the_python_blocks_run_in_order(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    torch.manual_seed(0)
    names: dict = {}
    for block in blocks("python"):
        exec(compile(block, "README.md", "exec"), names)  # our own text
    assert names["predictions"].shape == (2, 5, 1)
    assert type(names["net"]) is torch.nn.Sequential
    assert (tmp_path / "front.html").stat().st_size > 10_000
    # the network cannot do both well, and the ray decides which one it does
    front = names["front"]
    assert front.losses[0, 0] < 0.5 * front.losses[-1, 0]
    assert front.losses[-1, 1] < 0.5 * front.losses[0, 1]


def test_the_diff_is_a_working_loop_before_and_after():
    (diff,) = blocks("diff")
    lines = diff.splitlines()
    before = "\n".join(line[2:] for line in lines if not line.startswith("+"))
    after = "\n".join(line[2:] for line in lines if not line.startswith("-"))
    for code in (before, after):
        torch.manual_seed(0)
        names = {
            "hf": hf,
            "torch": torch,
            "net": torch.nn.Linear(3, 1),
            "loader": [(torch.randn(8, 3), torch.randn(8, 1)) for _ in range(3)],
            "left_loss": lambda output, target: (output - target).square().mean(),
            "right_loss": lambda output, target: (output + target).abs().mean(),
        }
        exec(code, names)
        assert all(p.grad.abs().sum() > 0 for p in names.get("model", names["net"]).parameters())


def commands_of(block: str) -> list[str]:
    return re.findall(r"^\$ (?:hyperfront|python -m) (.*?)(?:\s+#.*)?$", block, flags=re.MULTILINE)


@pytest.mark.slow
def test_the_commands_run_in_order_and_the_first_run_reaches_the_true_front(tmp_path):
    """Without the demo, which runs from the wheel in ``test_package.py``."""
    demo, *commands = commands_of(next(block for block in blocks("console") if "hyperfront demo" in block))
    assert demo == "demo"
    assert [command.split()[0] for command in commands] == ["train", "evaluate", "export", "doctor", "doctor"]
    printed = {command.split()[0]: hyperfront(*shlex.split(command), folder=tmp_path) for command in commands}
    assert float(re.search(r"largest distance to truth\s+(\S+)", printed["train"])[1]) <= 1e-3
    assert float(re.search(r"uniformity, mean / least\s+\S+ / (\S+)", printed["train"])[1]) >= 0.999
    assert len((tmp_path / "front.csv").read_text().splitlines()) == 101
    assert {"model.pt2", "model.onnx", "README.md"} == {p.name for p in tmp_path.glob("runs/zdt2-epo/export/front/*")}


SHORTER = {
    "train": ["--dry-run"],  # test_fairness.py and test_sarcos.py train these presets
    "train --result": [],
    "compare": ["--epochs", "1", "--options", "cpmtl.steps=1", "cpmtl.iterations=2", "cpmtl.rows=64"],
    "tune": ["--epochs", "1", "--trials", "1"],
}


@pytest.mark.slow
@pytest.mark.data
def test_the_commands_with_data_run_in_order(tmp_path, monkeypatch):
    monkeypatch.setenv("HYPERFRONT_DATA", str(DATA))
    (tmp_path / "reproduction").symlink_to(ROOT / "reproduction")
    printed = {}
    for command in commands_of(next(block for block in blocks("console", PROBLEMS) if "hyperfront data" in block)):
        words = shlex.split(command)
        if words[0] in SHORTER:  # as the README says, but for seconds
            words = shlex.split(command.replace("--preset best", "").replace("--seeds 3", "--seeds 1"))
            words += ["--preset", "smoke", *SHORTER[words[0] + " --result" * ("--result" in words)]]
        if words[0] == "reproduction":
            words = [*words[1:], "--out", str(tmp_path / ("results" if words[1] == "make" else "report.html"))]
            printed[words[0]] = reproduction(*words, folder=tmp_path)
        else:
            printed[words[0]] = hyperfront(*words, folder=tmp_path)
    assert set(printed) == {"data", "train", "results", "compare", "tune", "make", "report"}
    assert "cpmtl" in printed["compare"] and "wrote runs/tune-adult-smoke-1-epochs/epo.json" in printed["tune"]
    assert "multi-fashion-mnist" in printed["results"]
    assert "PHN-EPO, same rays" in printed["make"] and (tmp_path / "report.html").exists()


def test_make_demo_is_the_demo_and_make_test_the_whole_suite():
    assert "make demo" in "".join(blocks("console"))
    dry = {
        name: subprocess.run(["make", "-n", "--no-print-directory", name], cwd=ROOT, capture_output=True, text=True)
        for name in ("demo", "test")
    }
    assert dry["demo"].stdout.rstrip().endswith("hyperfront demo")
    assert dry["test"].stdout.rstrip().endswith("python -m pytest --numprocesses auto --dist loadfile")
    assert "make test" in (ROOT / ".ci" / "run").read_text()


def tables(text: str) -> list[dict[str, str]]:
    """The rows of all Markdown tables, by column."""
    rows, columns = [], None
    for line in text.splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")] if line.startswith("|") else None
        if cells and columns and not set(cells[0]) <= set("-: "):
            rows.append(dict(zip(columns, cells, strict=True)))
        columns = columns or cells if cells else None
    return rows


def test_the_results_in_the_notebook_are_those_of_the_files():
    notebook = (ROOT / "reproduction" / "notebook.md").read_text()
    shown = [row for row in tables(notebook) if {"problem", "method", "HV"} <= set(row)]
    known = tables(hyperfront("results", str(ROOT / "reproduction" / "results"), "--markdown", folder=ROOT))
    assert len(shown) > 50
    stale = [row for row in shown if not any(row.items() <= other.items() for other in known)]
    assert not stale


def test_what_the_results_say_is_reached_is_that_of_the_files():
    """Hypervolume / uniformity of PHN-EPO: each pair is a row of the results, of its problem and preset."""
    known = [
        (row["problem"], row["data"], row["preset"].split(",")[0], float(row["HV"][:5]), float(row["uniformity"][:5]))
        for row in tables(hyperfront("results", str(ROOT / "reproduction" / "results"), "--markdown", folder=ROOT))
        if row["method"] == "phn-epo"
    ]
    named = {
        "Multi-(Fashion+MNIST)": [("multi-fashion-mnist", "clean")],
        "Multi-Fashion": [("multi-fashion", "clean")],
        "Multi-MNIST": [("multi-mnist", "clean")],
        "Adult, Default, Bank": [(name, "probability") for name in ("adult", "default", "bank")],
        "SARCOS, the paper's leaky split": [("sarcos", "paper")],
        "SARCOS, split by blocks": [("sarcos", "blocks")],
        "NYUv2, 288 x 384": [("nyuv2", "paper, 288x384")],
    }
    rows = [row for row in tables(RESULTS) if "preset `best`" in row]
    assert {row["data"] for row in rows} == set(named)
    for row in rows:
        for preset in ("best", "paper"):
            pairs = re.findall(r"(ResNet18 )?([\d.]+) / ([\d.]+)", row[f"preset `{preset}`"])
            assert len(pairs) >= len(named[row["data"]])
            for place, (other, *numbers) in zip(itertools.cycle(named[row["data"]]), pairs):
                assert (*place, "resnet18-2m" if other else preset, *map(float, numbers)) in known


def test_the_comparisons_in_readme_and_results_are_those_of_the_files():
    known = {}
    for item in ("table-1", "table-2", "table-3", "table-4"):
        known |= ITEMS[item].make(Store(ROOT / "reproduction" / "results", "full", train=False)).numbers
    shown = [row for page in (RESULTS, README) for row in tables(page) if "PHN-LS" in row]
    assert len(shown) == 9 + 4
    for row in shown:
        title, _, _ = row["data, number of rays"].rpartition(", ")
        methods = known[title]
        for method in ("phn-ls", "phn-epo"):
            found = fmean(front["hypervolume"] for front in methods[method]["same_rays"])
            assert float(row[METHODS[method].label]) == pytest.approx(found, abs=6e-4)
        others = {
            name: fmean(found["hypervolume"])
            for name, found in methods.items()
            if name.lower().startswith(("ls", "epo", "pmtl"))
        }
        best = max(others, key=lambda name: others[name])
        number, name = row["best of LS, EPO and PMTL"].split(" ")
        assert float(number) == pytest.approx(others[best], abs=6e-4) and best.lower().startswith(
            name.strip("()").lower()
        )


def test_the_numbers_beside_fairlearn_are_those_of_its_table():
    rows = [row for row in tables((ROOT / "docs" / "tables.md").read_text()) if "+" in row.get("hyperfront", "")]
    adult = next(row for row in rows if row["table"] == "adult")
    shown = [f"{float(adult[side].split()[0]):.3f}".lstrip("0") for side in ("hyperfront", "boosting", "logistic")]
    ahead, splits = (sum(int(row["ahead"].split(" of ")[part]) for row in rows) for part in (0, 1))
    assert "{} against {} around boosting and {} around logistic".format(*shown) in README.replace("\n", " ")
    assert f"{ahead} of {splits} splits" in README


def test_make_has_the_targets_that_the_readme_names():
    targets = re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(), flags=re.MULTILINE)
    assert set(re.findall(r"(?<!reproduction )make ([a-z]+)", README)) <= set(targets)


def test_the_readme_is_short():
    assert len(README.splitlines()) <= 150
