"""The commands, end to end, as a user types them."""

from __future__ import annotations

import json
import math
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import torch

import hyperfront as hf
from hyperfront.apps.cli import _functions as commands
from hyperfront.apps.cli.output import free_folder
from hyperfront.apps.cli.train import _stopped as stopped
from hyperfront.training.runs import RunFolder
from tests.helpers.command import hyperfront, hyperfront_process
from tests.helpers.data import DATA


@pytest.fixture(scope="module")
def trained(tmp_path_factory) -> tuple[Path, str]:
    folder = tmp_path_factory.mktemp("cli")
    return folder, hyperfront("train", "vlmop2", "--epochs", "6", "--rays", "9", folder=folder)


def test_train_prints_a_row_for_each_ray_and_both_hypervolumes(trained):
    _, text = trained
    assert len(re.findall(r"^(0\.\d{4}\s+){2}(\d\.\d{5}\s+){2}\S+e-\d\d\s+\d\.\d{6}$", text, flags=re.MULTILINE)) == 9
    learned, true = (float(v) for v in re.findall(r"hypervolume, (?:learned|true) front\s+(\S+)", text))
    assert 0.9 * true < learned <= true == pytest.approx(0.34212, abs=1e-5)


def test_train_writes_a_run_folder_with_pictures_and_a_model(trained):
    folder, _ = trained
    run = folder / "runs" / "vlmop2-epo"
    assert (run / "front.png").read_bytes().startswith(b"\x89PNG")
    assert len(hf.Front.load(run / "front.json")) == 9
    assert json.loads((run / "config.json").read_text())["epochs"] == 6
    page = (run / "front.html").read_text()
    assert "Plotly" in page
    assert not re.search(r"<(script|link)[^>]+(src|href)=[\"']http", page)
    model = hf.load(run)
    assert model.at([0.5, 0.5])().shape == (2,)


def test_evaluate_measures_the_same_front_again_and_writes_files(trained):
    folder, _ = trained
    run = "runs/vlmop2-epo"
    text = hyperfront("evaluate", run, "--rays", "9", "--save", "again.json", "t.csv", "p.svg", folder=folder)
    assert "wrote again.json" in text
    first, again = hf.Front.load(folder / run / "front.json"), hf.Front.load(folder / "again.json")
    torch.testing.assert_close(again.losses, first.losses, atol=1e-6, rtol=1e-5)
    assert len((folder / "t.csv").read_text().splitlines()) == 10
    assert "<svg" in (folder / "p.svg").read_text()


@pytest.mark.slow
def test_a_narrow_terminal_gets_every_number_of_the_table(trained):
    folder, _ = trained
    tables = [
        re.findall(
            r"^0\.\d.*$",
            hyperfront_process("evaluate", "runs/vlmop2-epo", folder=folder, columns=n),
            flags=re.MULTILINE,
        )
        for n in (40, 120)
    ]
    assert len(tables[0]) == 25
    assert tables[0] == tables[1]


def test_the_overview_has_a_few_lines_for_each_command_and_no_command_is_its_synonym(tmp_path):
    text = hyperfront(folder=tmp_path)
    assert text == hyperfront("--help", folder=tmp_path)
    names = re.findall(r"• (\w+)", text)
    assert {"demo", "train", "data"} <= set(names)
    assert len(text.splitlines()) < 15 + 2 * len(names)


def test_an_unknown_option_is_answered_with_those_of_its_command_only(tmp_path):
    text = hyperfront("tune", "zdt2", "--epoch", "3", folder=tmp_path, code=2)
    assert "--epochs" in text
    assert "hyperfront tune --help" in text
    assert "hyperfront train" not in text


def test_a_folder_that_is_taken_is_refused_in_the_words_of_the_command_line(trained):
    folder, _ = trained
    assert "add --resume" in hyperfront("train", "vlmop2", "--out", "runs/vlmop2-epo", folder=folder, code=2)


def test_the_version_is_told(tmp_path):
    assert hyperfront("--version", folder=tmp_path) == f"hyperfront {hf.__version__}\n"


def test_a_second_run_gets_a_folder_of_its_own(trained):
    folder, _ = trained
    before = (folder / "runs" / "vlmop2-epo" / "last.safetensors").read_bytes()
    hyperfront("train", "vlmop2", "--epochs", "1", folder=folder)
    assert (folder / "runs" / "vlmop2-epo-2" / "front.json").exists()
    assert (folder / "runs" / "vlmop2-epo" / "last.safetensors").read_bytes() == before


@pytest.mark.data
def test_a_dry_run_also_where_an_epoch_is_one_step(tmp_path):
    words = ["train", "adult", "--preset", "best", "--dry-run", "--data-dir", str(DATA)]
    assert "s an epoch" in hyperfront(*words, folder=tmp_path)


def test_a_reader_that_has_read_enough_is_no_error():
    command = [sys.executable, "-u", "-c", "from hyperfront.apps.cli import main; main()", "train", "--help"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stdout is not None and process.stderr is not None
    process.stdout.close()  # as `| head` does
    assert process.stderr.read() == ""
    process.stderr.close()
    assert process.wait() == 1


@pytest.mark.slow
def test_ctrl_c_says_how_to_continue_and_the_command_it_names_works(tmp_path):
    words = ["train", "fonseca", "--out", "run", "--epochs", "4"]
    program = ["-m", "tests.helpers.interrupted", "2", "1"]
    said = hyperfront_process(*words, folder=tmp_path, code=130, program=program)
    assert "saved to run" in said
    assert "hyperfront train fonseca --out run --epochs 4 --resume\n" in said
    hyperfront(*words, "--resume", folder=tmp_path)
    epochs = [json.loads(line)["epoch"] for line in (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()]
    assert epochs == [1, 2, 3, 4]


@pytest.mark.parametrize(
    ("typed", "command"),
    [
        (["train", "zdt2"], "train zdt2 --out run --resume"),
        (["train", "zdt2", "--out=run", "--resume"], "train zdt2 --out=run --resume"),
        (["demo"], "train zdt2 --out run --resume"),
    ],
)
def test_the_command_to_continue_with_is_one_of_train(tmp_path, monkeypatch, typed, command):
    monkeypatch.setattr(sys, "argv", ["hyperfront", *typed])
    monkeypatch.chdir(tmp_path)
    folder = RunFolder(Path("run"))
    assert "nothing was saved" in stopped("", "zdt2", folder)
    folder.create({}, {})
    first, second = stopped("stopped in epoch 2. Continue with fit", "zdt2", folder).splitlines()
    assert "epoch 2" in first and "fit" not in first and second.endswith(f" hyperfront {command}")


@pytest.mark.slow
def test_a_new_run_where_there_is_none_to_resume_says_so(tmp_path):
    words = ["train", "zdt2", "--epochs", "1", "--out", "new", "--resume"]
    assert "nothing to resume in new" in hyperfront(*words, folder=tmp_path)
    assert "nothing to resume" not in hyperfront(*words, folder=tmp_path)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["train", "zdt2", "--dry-run", "--epochs", "-3"], "epochs"),
        (["trian"], "Did you mean 'train'"),
        (["train", "fonsecca"], "did you mean 'fonseca'"),
        (["train", "zdt2", "--solver", "epoo"], "did you mean 'epo'"),
        (["train", "zdt2", "--solver", "pbi", "--solver-arguments", "colour=1"], "'pbi' does not take these arguments"),
        (
            ["train", "zdt2", "--solver", "stch", "--solver-arguments", "temperature=-1"],
            "temperature of SmoothTchebycheff is out of range",
        ),
        (["train", "zdt2", "--solver", "hvmax", "--rays-per-step", "1"], "HVMax needs several rays"),
        (["train", "zdt2", "--arguments", "variables"], "name=value"),
        (["train", "zdt2", "--arguments", "variables=1"], "an integer >= 2"),
        (["train", "zdt2", "--arguments", "colour=1"], "has no argument"),
        (["train", "zdt2", "--batch-size", "32"], "no data to make batches of"),
        (["train", "sarcos", "--arguments", "rows=0"], "no such rows"),
        (["train", "adult", "--arguments", "rows=many"], "no such rows"),
        (["train", "zdt2", "--resume"], "add --out"),
        (["train", "zdt2", "--solver", "stch", "--solver-arguments", "temp=1"], "temperature"),
        (["train", "zdt2", "--epochs", "0"], "epochs"),
        (["train", "zdt2", "--out", "/dev/null/run"], "cannot make the folder"),
        (["train", "zdt2", "--lr", "inf"], "lr is out of range"),
        (["train", "zdt2", "--result", "."], "cannot write"),
        (["train", "zdt2", "--result", "/dev/null/x.json"], "cannot write"),
        (["train", "zdt2", "--solver", "SmoothTchebycheff"], "its name here is stch"),
        (["compare", "zdt2", "--methods", "nsga3", "--options", "nsga3.generations=abc"], "an integer >= 1"),
        (["compare", "zdt2", "--methods", "nsga3", "--options", "nsga3.generations=-5"], "an integer >= 1"),
        (["compare", "zdt2", "--methods", "cpmtl", "--options", "cpmtl.length=-1"], "a number >= 0"),
        (["tune", "zdt2", "--method", "epo", "--search", "lr=a,b"], "lr is a number"),
        (["evaluate", "nowhere"], "no checkpoint"),
    ],
)
def test_mistakes_get_an_answer_instead_of_a_traceback(words, message, tmp_path):
    assert message in hyperfront(*words, folder=tmp_path, code=2)


def test_a_module_beside_the_user_is_found_as_by_the_installed_command(tmp_path):
    net = torch.nn.Linear(3, 1)
    hf.wrap(net, ["a", "b"], hidden=4).save(tmp_path / "model.safetensors")
    (tmp_path / "mine.py").write_text("from torch import nn\n\n\ndef net():\n    return nn.Linear(3, 1)\n")
    words = ["export", "model.safetensors", "--at", "0.5", "0.5", "--formats", "safetensors", "--out", "out"]
    code = "from hyperfront.apps.cli import main; main()"
    command = [sys.executable, "-P", "-c", code, *words]  # -P: the folder is not on the path, as in a script
    done = subprocess.run([*command, "--target", "mine:net"], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "out" / "model.py").exists()


@pytest.mark.slow
@pytest.mark.parametrize("solver", ["ls", "tchebycheff", "stch", "pbi", "cosmos", "pmtl", "hvmax", "mgda"])
def test_every_solver_trains_by_its_name(solver, tmp_path):
    words = ["train", "dtlz2", "--epochs", "1", "--rays-per-step", "4", "--rays", "3"]
    words += ["--solver-arguments", "weight=2.5"] if solver == "cosmos" else []
    text = hyperfront(*words, "--solver", solver, folder=tmp_path)
    run = tmp_path / "runs" / f"dtlz2-{solver}"
    convention = hf.Front.load(run / "front.json").convention
    assert ("angle to ray" in text) == (convention == "direction")
    settings = json.loads((run / "config.json").read_text())["solver"]
    assert solver != "cosmos" or settings["weight"] == 2.5


def test_dry_run_writes_nothing(tmp_path):
    text = hyperfront("train", "dtlz2", "--arguments", "m=4", "--dry-run", folder=tmp_path)
    assert "s an epoch" in text
    assert not list(tmp_path.iterdir())


def test_doctor_finds_this_environment_sound(tmp_path):
    assert "everything is ready" in hyperfront("doctor", folder=tmp_path)


COMMANDS = "demo problems train evaluate compare tune explore export serve predict doctor"


@pytest.mark.parametrize("command", [*COMMANDS.split(), "data fetch", "data prepare", "train t.csv"])
def test_help_explains_every_option(command, tmp_path, monkeypatch):
    monkeypatch.setenv("COLUMNS", "120")
    text = hyperfront(*command.split(), "--help", folder=tmp_path)
    for block in re.findall(r"│ (--\S+.*?)(?=\n│ --|\n╰)", text, flags=re.DOTALL):
        words = re.sub(r"[│\s]+", " ", block).split()
        assert len(words) > 4, block


def test_a_free_folder_is_taken_at_once_and_given_back_where_nothing_begins(tmp_path):
    taken = [free_folder(tmp_path / "runs" / "zdt2-epo") for _ in range(2)]
    assert [folder.name for folder in taken] == ["zdt2-epo", "zdt2-epo-2"]
    for words in (["--epochs", "0"], ["--lr", "inf"], ["--rays", "0"], ["--engine", "nonsense"]):
        hyperfront("train", "zdt2", *words, folder=tmp_path, code=2)
        assert sorted((tmp_path / "runs").iterdir()) == taken


def test_a_file_that_cannot_be_read_is_named_without_a_traceback(tmp_path, monkeypatch):
    (tmp_path / "file.json").write_text("{}")

    def refused(path):
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr(Path, "read_bytes", refused)  # root may read everything
    text = hyperfront("results", str(tmp_path), folder=tmp_path, code=2)
    assert text == f"hyperfront: cannot use {tmp_path / 'file.json'}: Permission denied\n"


def test_smoke_tests_are_no_results(tmp_path):
    known = Path(__file__).parents[1] / "reproduction" / "results" / "fairness" / "adult-best-ls-0.json"
    for place in ("results", "results/smoke/studies/adult"):
        (tmp_path / place).mkdir(parents=True, exist_ok=True)
        name = known.name.replace("ls", "epo") if "smoke" in place else known.name
        (tmp_path / place / name).write_bytes(known.with_name(name).read_bytes())
    shown = {folder: hyperfront("results", folder, folder=tmp_path) for folder in ("results", "results/smoke")}
    assert "phn-ls" in shown["results"] and "phn-epo" not in shown["results"]
    assert "phn-epo" in shown["results/smoke"]


def test_ctrl_c_while_the_package_is_loaded_is_no_traceback():
    code = """
import builtins, sys
real = builtins.__import__
def load(name, *given):
    if name.startswith("hyperfront"): raise KeyboardInterrupt
    return real(name, *given)
import hyperfront_command
builtins.__import__ = load
hyperfront_command.main()
"""
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (ended.returncode, ended.stderr) == (130, "hyperfront: stopped\n")


def test_help_for_a_terminal_without_unicode():
    plain = {**os.environ, "PYTHONIOENCODING": "ascii", "LC_ALL": "C"}
    ended = subprocess.run(
        [sys.executable, "-m", "hyperfront_command", "--help"], capture_output=True, text=True, env=plain
    )
    assert ended.returncode == 0 and not ended.stderr and "compare" in ended.stdout


def test_where_nothing_can_be_written_nothing_is_trained(tmp_path):
    (tmp_path / "file").write_text("not a folder")
    text = hyperfront("compare", "zdt2", "--out", "file/results", folder=tmp_path, code=2)
    assert "cannot write" in text and "phn-epo" not in text


@pytest.mark.parametrize(
    "words", [[], *([name] for name in commands()), ["data", "fetch"], ["train", "t.csv"]], ids=str
)
def test_help_fits_on_two_screens(words, tmp_path, monkeypatch):
    columns, lines = 80, 24
    monkeypatch.setenv("COLUMNS", str(columns))
    printed = hyperfront(*words, "--help", folder=tmp_path).splitlines()
    assert sum(max(1, math.ceil(len(line) / columns)) for line in printed) <= 2 * lines


def test_help_breaks_lines_between_words(tmp_path, monkeypatch):
    monkeypatch.setenv("COLUMNS", "60")
    printed = hyperfront("evaluate", "--help", folder=tmp_path)
    sentence = "on validation or test data. Examples:"
    assert sentence in " ".join(printed.split()) and "    hyperfront evaluate runs/demo --rays 100\n" in printed
    assert all(len(line) <= 60 for line in printed.splitlines() if "    hyperfront" not in line)
