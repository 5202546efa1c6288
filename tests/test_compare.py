"""`hyperfront compare` and `hyperfront tune`, end to end, as a user types them."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from dataclasses import asdict, replace
from pathlib import Path
from types import SimpleNamespace

import optuna
import pytest
import torch
from torch import nn

import hyperfront as hf
import hyperfront.comparison.tune as tuning
from hyperfront.comparison import Protocol, Result, compare, methods, timing
from hyperfront.comparison.baselines import Expansion, cpmtl, fit_stacked
from hyperfront.comparison.compare import _checksum, table, times_one_by_one
from hyperfront.comparison.pruning import STARTUP, Dominated
from hyperfront.comparison.search import check_search, suggest
from hyperfront.comparison.tune import most_uniform, tune
from hyperfront.comparison.tuned import Tuned
from hyperfront.errors import CheckpointError, HyperfrontError
from hyperfront.problem.recipe import Recipe
from hyperfront.problem.registry import build
from hyperfront.problem.sources import NoData
from hyperfront.training import Callback
from hyperfront.zoo import toys
from reproduction import Store
from tests.helpers.command import hyperfront
from tests.helpers.data import DATA
from tests.helpers.interrupted import ctrl_c_after

ROOT = Path(__file__).parents[1]
METHODS = ["phn-epo", "ls", "epo", "pmtl", "mgda", "cpmtl", "nsga3", "moead", "single"]
FEW = ["cpmtl.steps=2"]
FEW += [f"{name}.{setting}" for name in ("nsga3", "moead") for setting in ("generations=10", "population=20")]
FOLDER = "-".join(["compare-vlmop2-best-3-rays-2-epochs", *FEW])
QUICK = ["--epochs", "2", "--options", *FEW]


def started(*words: str, folder: Path) -> subprocess.Popen:
    """The command in a process of its own, beside another one."""
    command = [sys.executable, "-c", "from hyperfront.apps.cli import main; main()", *words]
    environment = os.environ | {"OMP_NUM_THREADS": "1", "PYTHONUNBUFFERED": "1"}
    return subprocess.Popen(
        command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment
    )


def rows(text: str) -> dict[str, list[str]]:
    """The table as it was printed, by method."""
    lines = [re.split(r"\s{2,}", line.strip()) for line in text.splitlines()]
    return {line[0]: line[1:] for line in lines if len(line) > 6}


@pytest.fixture(scope="module")
def compared(tmp_path_factory) -> tuple[Path, str]:
    folder = tmp_path_factory.mktemp("compare")
    words = ["compare", "vlmop2", "--methods", ",".join(METHODS), "--rays", "3", "--seeds", "1", *QUICK]
    return folder, hyperfront(*words, folder=folder)


def test_one_table_has_a_row_for_every_method(compared):
    _, text = compared
    table = rows(text)
    columns = "seeds, points, HV, kept HV, uniformity, distance, seconds, one by one, parameters"
    assert table.pop("method") == columns.split(", ")
    assert [*table] == [*METHODS[:-1], "single (ideal)"]
    assert [table[name][:2] for name in METHODS[:6]] == [["1", count] for count in ("3", "3", "3", "3", "3", "15")]
    assert table["cpmtl"][4] == table["single (ideal)"][3] == table["single (ideal)"][4] == "-"
    assert all(float(table[name][3]) <= float(table[name][2]) for name in METHODS[:-1])
    assert all(table[name][-1] == "6" for name in ("ls", "epo", "pmtl", "mgda", "nsga3"))  # 3 models of 2 numbers
    bound = float(table["single (ideal)"][2])
    assert all(float(table[name][2]) <= bound for name in METHODS[:-1])


def test_the_files_hold_what_the_table_says_and_were_asked_for_the_same_points(compared):
    folder, text = compared
    where = folder / "runs" / FOLDER
    results = {name: Result.load(where / "results" / f"{name}-0.json") for name in METHODS}
    for name, result in results.items():
        assert result.method == name
        shown = rows(text)["single (ideal)" if name == "single" else name][2]
        assert f"{result.fronts['test']['hypervolume']:.4f}" == shown
    rays = {name: torch.tensor(results[name].rays) for name in ("phn-epo", "ls", "epo", "nsga3")}
    assert all(torch.equal(each, rays["epo"]) for each in rays.values())
    torch.testing.assert_close(torch.tensor(results["pmtl"].rays), rays["epo"].flip(0))  # directions
    assert results["nsga3"].settings["budget"] == {"generations": 10, "population": 20, "rows": 4096}
    assert hf.load(where / "runs" / "epo-0").at(results["epo"].rays[0])().shape == (2,)


def test_what_is_finished_is_not_run_again_and_other_settings_are_refused(compared):
    folder, text = compared
    words = ["compare", "vlmop2", "--methods", "epo,ls", "--rays", "3", "--seeds", "1"]
    before = {file: file.stat().st_mtime_ns for file in (folder / "runs").rglob("*.json")}
    again = hyperfront(*words, *QUICK, folder=folder)
    assert again.count("finished before") == 2
    assert rows(again)["epo"] == rows(text)["epo"]
    assert {file: file.stat().st_mtime_ns for file in before} == before
    words += ["--epochs", "2", "--out", f"runs/{FOLDER}"]
    other = hyperfront(*words, "--epochs", "3", "--rays", "20", folder=folder, code=2)
    assert "with other settings" in other and "epochs = 3; rays = 20 values, [[" in other


def test_a_second_comparison_adds_to_the_table(compared):
    folder, text = compared
    words = ["compare", "vlmop2", "--rays", "3", "--seeds", "1", *QUICK]
    assert {*rows(hyperfront(*words, "--methods", "phn-epo", folder=folder))} == {*rows(text)}
    written = (folder / "runs" / FOLDER / "table.md").read_text()
    assert all(f"| {name} |" in written for name in METHODS[:-1])


def test_the_points_are_the_different_ones(tmp_path):
    same, other = [0.5, 0.5], [0.2, 0.8]
    for seed, losses in enumerate(([same, same, same], [same, other, same])):
        front = {"hypervolume": 0.1, "uniformity": 0.2, "losses": losses}
        found = Result(
            problem="p", preset="best", solver="nsga3", seed=seed, settings={}, parameters=6, seconds={"training": 1.0},
            objectives=("a", "b"), reference=(1, 1), convention="inverse", rays=[same] * 3,
            fronts={"val": front, "test": front}, status={}, environment={}, family="evolutionary",
        )  # fmt: skip
        (row,) = table([found], {})[1]
        assert row[1:3] == ("1", str(seed + 1))


def test_after_ctrl_c_the_same_command_ends_where_it_would_have(tmp_path):
    words = ["compare", "vlmop2", "--methods", "ls,phn-ls", "--rays", "3", "--seeds", "1", "--epochs", "6"]
    folder = tmp_path / "runs" / "compare-vlmop2-best-3-rays-6-epochs"
    with ctrl_c_after(2, training=2):
        assert "the same command continues" in hyperfront(*words, folder=tmp_path, code=130)
    assert [file.name for file in (folder / "results").iterdir()] == ["ls-0.json"]
    text = hyperfront(*words, folder=tmp_path)
    assert text.count("finished before") == 1
    whole = hyperfront(*words, "--methods", "phn-ls", "--out", "whole", folder=tmp_path)
    assert rows(text)["phn-ls"][:4] == rows(whole)["phn-ls"][:4]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["compare", "zdt2", "--methods", "phn-epoo"], "did you mean 'phn-epo'"),
        (["compare", "zdt2", "--methods", ","], "nothing to compare"),
        (["compare", "zdt2", "--methods", "hvmax"], "did you mean 'phn-hvmax'"),
        (["compare", "zdt2", "--options", "nsga3.colour=1"], "generations, population, rows"),
        (["compare", "zdt2", "--tuned", "nowhere"], "no tuned settings"),
        (["tune", "zdt2", "--method", "nsga3"], "no settings to tune"),
        (["tune", "zdt2", "--search", "lr=1..0.1"], "0 < low < high"),
        (["tune", "zdt2", "--search", "lr"], "name=low..high"),
        (["tune", "zdt2", "--trials", "0"], "0 trials"),
        (["tune", "zdt2", "--search", "colour=1,2", "--trials", "1"], "does not take these options"),
        (["tune", "zdt2", "--search", "hidden=1,2", "--method", "ls"], "unknown setting of ls 'hidden'"),
        (["tune", "zdt2", "--search", "lrr=1,2", "--method", "ls"], "did you mean 'lr'"),
        (["tune", "zdt2", "--search", "alpha=1,2", "--method", "ls"], "does not affect ls"),
        (["tune", "zdt2", "--search", "arguments=1,2"], "does not affect phn-epo"),
        (["tune", "zdt2", "--seed", "-1"], "seed"),
        (["compare", "zdt2", "--arguments", "variable=3"], "did you mean 'variables'"),
        (["tune", "zdt2", "--out", "/dev/null/below"], "cannot write"),
        (["compare", "zdt2", "--out", "/dev/null/below"], "cannot write"),
        (["compare", "zdt2", "--methods", "nsga3,cpmtl", "--tuned", "nowhere"], "--method ls"),
        (["compare", "zdt2", "--data-dir", "nowhere"], "has no data"),
        (["compare", "zdt2", "--rays", "1"], "leave PMTL out"),
    ],
)
def test_mistakes_get_an_answer(words, message, tmp_path):
    assert message in hyperfront(*words, folder=tmp_path, code=2)


def test_the_help_names_every_method(tmp_path):
    text = "".join(hyperfront("compare", "--help", folder=tmp_path).replace("│", "").split())
    text = re.sub(r"([a-z]+-)\(([^)]*)\)", lambda m: ",".join(m[1] + rest for rest in m[2].split(",")), text)
    assert all(name in text for name in methods.METHODS)


def test_times_are_measured_once_for_the_same_settings(tmp_path):
    problem, told = toys.zdt1(variables=3), []
    protocol = Protocol("best", Recipe(epochs=1), hf.rays(2, m=2))
    for each in (protocol, protocol, replace(protocol, recipe=Recipe(epochs=2))):
        times = times_one_by_one(problem, ["phn-ls", "ls"], each, folder=tmp_path, notify=told.append)
        assert times.keys() == {"ls"} and times["ls"] > 0
    assert told == ["ls", "ls"]


# ---- real data -----------------------------------------------------------------------------------------------


@pytest.mark.data
@pytest.mark.parametrize(
    ("problem", "methods", "settings"),
    [
        ("adult", "phn-epo,ls,epo,pmtl,cpmtl,nsga3,single", ["rows=1500"]),
        ("multi-mnist", "phn-epo,epo,pmtl,cpmtl", ["rows=192"]),
    ],
)
def test_real_data(problem, methods, settings, tmp_path):
    words = ["compare", problem, "--preset", "smoke", "--methods", methods, "--rays", "3", "--seeds", "1"]
    words += ["--arguments", *settings, "--epochs", "1", "--data-dir", str(DATA)]
    words += ["--options", "cpmtl.steps=1", "cpmtl.iterations=2", "cpmtl.rows=64"]
    words += ["nsga3.generations=3", "nsga3.population=15"]
    table = rows(hyperfront(*words, folder=tmp_path))
    assert {"single (ideal)" if name == "single" else name for name in methods.split(",")} == table.keys() - {"method"}
    weights = {"adult": 2797, "multi-mnist": 31_910}[problem]
    assert int(table["epo"][-1].replace(",", "")) == 3 * weights


def test_the_commands_of_its_help_work_one_after_the_other(tmp_path):
    few = ["--epochs", "1"]
    hyperfront("compare", "vlmop2", "--methods", "ls", "--seeds", "1", *few, folder=tmp_path)
    hyperfront("compare", "vlmop2", "--methods", "ls", "--rays", "3", "--seeds", "1", *few, folder=tmp_path)
    hyperfront("tune", "vlmop2", "--method", "ls", "--search", "lr=1e-2", *few, folder=tmp_path)
    tuned = ["--tuned", "runs/tune-vlmop2-best-1-epochs"]
    hyperfront("compare", "vlmop2", "--methods", "ls", "--seeds", "2", *tuned, *few, folder=tmp_path)
    hyperfront("tune", "vlmop2", "--method", "epo", "--search", "lr=1e-2", *few, folder=tmp_path)
    text = hyperfront("compare", "vlmop2", "--methods", "epo", "--seeds", "1", *tuned, *few, folder=tmp_path)
    assert {name: line[0] for name, line in rows(text).items()} == {"method": "seeds", "epo": "1", "ls": "2"}
    assert len([*tmp_path.glob("runs/compare-*/table.md")]) == 3


# ---- tune ----------------------------------------------------------------------------------------------------


def test_one_model_per_ray_is_tuned_at_one_ray_and_compare_takes_what_was_found(tmp_path):
    tune = ["tune", "vlmop2", "--method", "epo", "--epochs", "1", "--search", "lr=1e-3,1e-2,3e-2", "--out", "tuned"]
    text = hyperfront(*tune, "--trials", "2", folder=tmp_path)
    assert len(re.findall(r"^trial ", text, flags=re.MULTILINE)) == 2
    text = hyperfront(*tune, "--trials", "20", folder=tmp_path)  # goes on, until the grid is done
    assert len(re.findall(r"^trial ", text, flags=re.MULTILINE)) == 1
    found = Tuned.load(tmp_path / "tuned" / "epo.json")
    assert sum(found.trials.values()) == 3 and found.settings["lr"] in (1e-3, 1e-2, 3e-2)
    for trials in ("3", "20"):  # nothing left to do
        text = hyperfront(*tune, "--trials", trials, folder=tmp_path)
        assert "wrote tuned/epo.json" in text and not re.findall(r"^trial ", text, flags=re.MULTILINE)
    other = hyperfront(*tune, "--arguments", "variables=3", folder=tmp_path, code=2)
    assert "trials with other settings" in other and "variables" in other
    other = hyperfront(*tune[:-3], "lr=1e-2,2e-2", *tune[-2:], folder=tmp_path, code=2)
    assert "trials with other settings" in other and "0.02" in other
    words = ["compare", "vlmop2", "--methods", "epo", "--seeds", "1", "--epochs", "1", "--tuned", "tuned", "--out", "c"]
    hyperfront(*words, folder=tmp_path)
    assert Result.load(tmp_path / "c" / "results" / "epo-0.json").settings["lr"] == found.settings["lr"]
    assert "names a file" in hyperfront(*words, "--tuned", "tuned/epo.json", folder=tmp_path, code=2)
    replace(found, method="ls").save(tmp_path / "tuned" / "ls.json")
    words[3], words[-1] = "cpmtl,pmtl", "d"
    assert "preset: pmtl" in hyperfront(*words, "--options", "cpmtl.steps=1", folder=tmp_path)
    assert Result.load(tmp_path / "d" / "results" / "cpmtl-0.json").settings["lr"] == found.settings["lr"]
    replace(found, problem="bank").save(tmp_path / "tuned" / "epo.json")
    words[3] = "epo"
    assert "another problem" in hyperfront(*words, folder=tmp_path, code=2)


def test_a_hypernetwork_is_tuned_by_its_hypervolume_and_a_stopped_trial_is_taken_up_again(tmp_path):
    words = ["tune", "vlmop2", "--method", "phn-ls", "--epochs", "12", "--search", "lr=1e-3..1e-1", "hidden=4..8"]
    words += ["--trials", "3", "--out", "t", "--storage", f"sqlite:///{tmp_path}/shared.db"]
    with ctrl_c_after(2, training=2):
        before = hyperfront(*words, folder=tmp_path, code=130)
    assert "same command" in before and len(re.findall("^trial ", before, flags=re.MULTILINE)) == 1
    text = hyperfront(*words, folder=tmp_path)
    reached = [float(v) for v in re.findall(r"^trial .* hypervolume (\S+),", text, flags=re.MULTILINE)]
    assert len(reached) == 2  # the one that was stopped, again, and the one that was left
    found = Tuned.load(tmp_path / "t" / "phn-ls.json")
    assert found.trials["complete"] == 3 and found.trials["stopped"] == 1
    assert found.hypervolume >= max(reached) - 1e-4
    assert {"lr", "hidden"} == found.settings.keys()


@pytest.mark.parametrize("stopped", [1, 2, 3])
def test_a_grid_that_was_stopped_is_searched_to_its_end(stopped, tmp_path):
    class Stop(Callback):
        begun = 0

        def epoch_ended(self, record):
            Stop.begun += record["epoch"] == 1
            if Stop.begun == stopped and record["epoch"] == 2:
                Stop.begun += 1
                raise KeyboardInterrupt

    protocol, rates = Protocol("quick", Recipe(epochs=3), hf.rays(3, 2)), [1e-3, 3e-3, 1e-2]
    given = {"space": {"lr": rates}, "storage": f"sqlite:///{tmp_path}/trials.db"}
    with pytest.raises(KeyboardInterrupt):
        tune(toys.vlmop2(), "epo", protocol, callbacks=[Stop()], **given)
    tried = []
    found = tune(toys.vlmop2(), "epo", protocol, notify=lambda study, trial: tried.append(trial.params["lr"]), **given)
    assert len(set(tried)) == len(tried) == 4 - stopped
    assert found.trials == {"complete": 3, "stopped": 1}


def test_one_model_per_ray_is_tuned_at_the_central_ray(tmp_path):
    problem, recipe = toys.fonseca(variables=3), Recipe(epochs=2, lr=3e-2)
    protocol = Protocol("quick", recipe, hf.rays(3, 2))
    found = tune(problem, "epo", protocol, space={"lr": [1e-2]}, storage=f"sqlite:///{tmp_path}/trials.db")
    run = fit_stacked(problem, torch.tensor([[0.5, 0.5]]), hf.EPO(), replace(recipe, lr=1e-2), callbacks=())
    torch.testing.assert_close(torch.tensor(found.losses), run.front.losses.float())


def test_settings_whose_trial_ended_with_an_error_are_tried_again(tmp_path):
    class Fails(Callback):
        def epoch_ended(self, record):
            raise OSError("the disk is full")

    protocol, rates = Protocol("quick", Recipe(epochs=2), hf.rays(3, 2)), [1e-3, 1e-2]
    given = {"space": {"lr": rates}, "storage": f"sqlite:///{tmp_path}/trials.db"}
    for _ in range(2):
        with pytest.raises(OSError, match="full"):
            tune(toys.vlmop2(), "epo", protocol, callbacks=[Fails()], **given)
    tried = []
    found = tune(toys.vlmop2(), "epo", protocol, notify=lambda study, trial: tried.append(trial.params["lr"]), **given)
    assert sorted(tried) == rates and found.trials == {"complete": 2, "stopped": 2}


def test_machines_that_begin_at_the_same_time_try_other_settings(tmp_path):
    """Both make their study before either has a trial."""
    protocol = Protocol("quick", Recipe(epochs=1), hf.rays(3, 2))
    given = {"space": {"lr": (1e-4, 1e-1)}, "storage": f"sqlite:///{tmp_path}/trials.db", "trials": 4}
    tried = []

    class Joins(Callback):
        """A second machine begins while the first one trains."""

        joined = False

        def started(self, **_):
            if not Joins.joined:
                Joins.joined = True
                work([])

    def work(callbacks: list) -> None:
        notify = lambda study, trial: tried.append(trial.params["lr"])  # noqa: E731
        tune(toys.vlmop2(), "phn-ls", protocol, callbacks=callbacks, notify=notify, **given)

    work([Joins()])
    assert len(tried) == len(set(tried)) >= 4


def test_a_range_is_not_the_list_of_its_ends(tmp_path):
    words = ["tune", "vlmop2", "--method", "epo", "--epochs", "1", "--trials", "1", "--out", "t", "--search"]
    hyperfront(*words, "lr=0.001..0.1", folder=tmp_path)
    refused = hyperfront(*words, "lr=0.001,0.1", folder=tmp_path, code=2)
    assert "trials with other settings" in refused and "0.001..0.1" in refused


def test_only_what_is_asked_for_has_to_be_tuned_and_readable(tmp_path):
    words = ["tune", "vlmop2", "--method", "phn-ls", "--search", "lr=0.01", "--epochs", "1", "--out", "t"]
    hyperfront(*words, folder=tmp_path)
    (tmp_path / "t" / "ls.json").write_text("{")
    words = ["compare", "vlmop2", "--seeds", "1", "--tuned", "t", "--epochs", "1", "--rays", "2"]
    assert "not tuned" not in hyperfront(*words, "--methods", "phn-ls", "--out", "a", folder=tmp_path)
    assert "ls.json" in hyperfront(*words, "--methods", "phn-ls,cpmtl", "--out", "b", folder=tmp_path, code=2)
    (tmp_path / "t" / "ls.json").unlink()
    said = hyperfront(*words, "--methods", "phn-ls,cpmtl,epo", "--out", "c", folder=tmp_path)
    assert "settings of the preset: cpmtl, epo\n" in said


def test_ctrl_c_that_a_data_base_swallows_ends_the_search(tmp_path, monkeypatch):
    """Whatever is raised while it cleans up is printed and forgotten, so nothing may be raised there."""
    real, trained = tuning._storage, []

    def slow(address: str):
        signal.raise_signal(signal.SIGINT)
        return real(address)

    monkeypatch.setattr(tuning, "_storage", slow)
    monkeypatch.setattr(tuning.Trials, "train", lambda *given: trained.append(given) or 0.0)
    protocol, space = Protocol("quick", Recipe(epochs=1), hf.rays(3, 2)), {"lr": [1e-3, 1e-2]}
    with pytest.raises(KeyboardInterrupt):
        tune(toys.vlmop2(), "phn-ls", protocol, space=space, storage=f"sqlite:///{tmp_path}/trials.db")
    assert not trained


def test_a_search_without_a_point_below_the_reference_says_so(tmp_path, monkeypatch):
    monkeypatch.setattr(tuning.indicators, "hypervolume", lambda *given: 0.0)
    words = ["tune", "vlmop2", "--method", "phn-ls", "--search", "lr=0.01", "--epochs", "1", "--out", "t"]
    assert "reference point" in hyperfront(*words, folder=tmp_path)


def test_what_no_evolution_can_search_is_refused_before_the_first_training(tmp_path):
    data = torch.ones(8, 2), torch.ones(8, 1)
    losses = {"a": lambda o, b: o.square().mean(), "b": lambda o, b: (o - 1).square().mean()}
    net = nn.Sequential(nn.Linear(2, 3), nn.BatchNorm1d(3), nn.Linear(3, 1))
    problem = hf.supervised(data, data, data, losses=losses, reference=(9, 9), make_target=lambda: net)
    protocol = Protocol("mine", Recipe(epochs=1, batch_size=4), hf.rays(2, m=2))
    with pytest.raises(HyperfrontError, match="BatchNorm"):
        compare(problem, ["phn-ls", "nsga3"], protocol, seeds=[0], folder=tmp_path / "c", progress=False)
    assert not (tmp_path / "c").exists()


def test_between_separate_models_there_is_no_front(tmp_path):
    words = ["compare", "vlmop2", "--methods", "ls", "--seeds", "1", "--epochs", "1", "--rays", "3", "--out", "c"]
    hyperfront(*words, folder=tmp_path)
    text = hyperfront("evaluate", "c/runs/ls-0", folder=tmp_path)
    assert text.startswith("3 separate models") and "hypervolume" in text and "learned front" not in text
    assert len([line for line in text.splitlines() if line.startswith("0.")]) == 3


def test_compare_says_what_was_tuned_otherwise_and_the_command_line_has_the_last_word(tmp_path):
    words = ["tune", "vlmop2", "--method", "ls", "--arguments", "variables=3", "--out", "t"]
    hyperfront(*words, "--search", "lr=0.01,0.02", "epochs=1,2", folder=tmp_path)
    words = ["compare", "vlmop2", "--methods", "ls", "--seeds", "1", "--tuned", "t", "--epochs", "3", "--out", "c"]
    text = hyperfront(*words, folder=tmp_path)
    (said,) = (line for line in text.splitlines() if "other settings" in line)
    assert said.endswith("arguments {'variables': 3}")
    assert "vlmop2, preset best, 5 rays, 3 epochs, tuned; " in (tmp_path / "c" / "table.md").read_text()
    assert Result.load(tmp_path / "c" / "results" / "ls-0.json").settings["epochs"] == 3


@pytest.mark.parametrize("address", ["foo://bar", "postgresql://nobody@localhost/none", "sqlite:////nowhere/x.db"])
def test_a_data_base_that_cannot_be_used_is_named(address, tmp_path):
    text = hyperfront("tune", "vlmop2", "--method", "epo", "--storage", address, folder=tmp_path, code=2)
    assert address in text and "driver" in text and "Traceback" not in text


@pytest.mark.parametrize("method", ["phn-ls", "epo"])
def test_bad_trials_are_pruned(method, tmp_path):
    bad = [1e-9, 2e-9, 3e-9]
    rates = ",".join(map(str, [0.002, 0.003, 0.004, 0.005, *bad]))
    words = ["tune", "vlmop2", "--method", method, "--epochs", "3", "--out", "t", "--search", f"lr={rates}"]
    text = hyperfront(*words, folder=tmp_path)
    found = Tuned.load(tmp_path / "t" / f"{method}.json")
    assert found.trials["pruned"] >= 1 and "pruned" in text
    assert found.settings["lr"] not in bad


def test_the_most_uniform_of_what_is_not_dominated_is_chosen():
    """Losses that are too large can be as uniform as one likes: they do not count."""

    def trial(losses: list[float], uniformity: float) -> SimpleNamespace:
        return SimpleNamespace(user_attrs={"losses": [losses], "uniformity": uniformity})

    bad, first, second = trial([0.9, 0.9], 1.0), trial([0.2, 0.8], 0.7), trial([0.5, 0.6], 0.9)
    assert most_uniform([bad, first, second]) is second


@pytest.mark.parametrize(("losses", "pruned"), [([0.6, 0.7], True), ([0.2, 0.9], False)])
def test_a_trial_is_pruned_where_most_others_dominate_it(losses, pruned):

    study = optuna.create_study(directions=["minimize"] * 2)
    for number in range(4):
        earlier = study.ask()
        earlier.set_user_attr("epoch 2", [0.3 + 0.05 * number, 0.5])
        study.tell(earlier, [0.3, 0.5])
    trial = study.ask()
    watch = Dominated(trial, warmup=1)
    watch.epoch_ended({"epoch": 1, "validation": {"losses": [[9.0, 9.0]]}})  # too early to say
    record = {"epoch": 2, "validation": {"losses": [losses]}}
    if pruned:
        with pytest.raises(optuna.TrialPruned, match="dominated in epoch 2"):
            watch.epoch_ended(record)
    else:
        watch.epoch_ended(record)


# ---- from Python ---------------------------------------------------------------------------------------------


def test_methods_are_timed_by_the_epochs_after_the_first(monkeypatch):
    runs: list[hf.Run] = []

    def slow(real):
        def begin(*given, **options):
            found = real(*given, **options)
            runs.append(found if isinstance(found, hf.Run) else found[0])
            for record, seconds in zip(runs[-1].history, (9.0, 2.0, 1.0, 8.0, 2.0), strict=True):
                record["seconds"] = seconds
            return found

        return begin

    monkeypatch.setattr(timing, "fit_stacked", slow(timing.fit_stacked))
    known = methods.METHODS["phn-ls"]
    monkeypatch.setitem(methods.METHODS, "phn-ls", replace(known, train=slow(known.train)))
    recipe = Recipe(epochs=7, model={"hidden": 8})
    protocol = Protocol("quick", recipe, hf.rays(5, 2), tuned={"pmtl": {"epochs": 11}})
    problem = toys.vlmop2()
    assert [timing.seconds_together(name, protocol, problem) for name in ("phn-ls", "ls")] == [2.0 * 7] * 2
    assert timing.seconds_apart("pmtl", protocol, problem) == 2.0 * 11 * 5
    assert [len(run.model.hypernet.knots) for run in runs[1:]] == [5, 1]

    clock = [0.0]

    def expand(expansion, *given):
        for seconds in (64.0, *[0.25] * (2 * expansion.steps - 1)):  # the first is slower, and does not count
            clock[0] += seconds
            yield

    monkeypatch.setattr(Expansion, "expand", expand)
    monkeypatch.setattr(cpmtl, "time", SimpleNamespace(perf_counter=lambda: clock[0]))
    expansions = 0.25 * Expansion().steps * 2 * 5  # of five models, from a few steps of one
    assert timing.seconds_apart("cpmtl", protocol, problem) == 2.0 * 7 * 5 + expansions
    assert timing.seconds_together("cpmtl", protocol, problem) == 2.0 * 7 + expansions
    assert (
        timing.seconds_apart("phn-ls", protocol, problem) is timing.seconds_together("nsga3", protocol, problem) is None
    )


def test_a_method_named_twice_is_run_once_and_how_models_were_trained_is_kept(tmp_path):
    words = ["compare", "vlmop2", "--seeds", "1", "--epochs", "1", "--out", "c"]
    text = hyperfront(*words, "--methods", "ls,ls", "--one-by-one", folder=tmp_path)
    assert "1/1" in text and "+-" not in text
    refused = hyperfront(*words, "--methods", "ls", folder=tmp_path, code=2)
    assert "one_by_one" in refused and "--out" in refused
    assert "rays, preset" not in hyperfront(*words, "--methods", "ls,eppo", folder=tmp_path, code=2)


def regression() -> hf.Problem:
    """A problem that is not built in, whose validation data are unlike its test data."""
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(160, 3, generator=generator)
    y = torch.stack([x[:, 0] * x[:, 1], x[:, 2]], dim=1)
    problem = hf.supervised(
        (x[:80], y[:80]),
        (x[80:120], y[80:120] + 0.2),
        (x[120:], y[120:] * 1.1),
        losses={
            "first": lambda output, batch: (output[:, 0] - batch[1][:, 0]).square().mean(),
            "second": lambda output, batch: (output[:, 0] - batch[1][:, 1]).square().mean(),
        },
        reference=(4, 4),
    )
    return replace(problem, make_target=lambda: torch.nn.Sequential(torch.nn.Linear(3, 5), torch.nn.Linear(5, 1)))


def test_the_table_is_of_the_test_data_of_the_weights_that_validation_chose_over_all_seeds(tmp_path):
    problem, rays = regression(), hf.rays(3, m=2)
    recipe = Recipe(epochs=4, lr=1e-2, batch_size=20, validate_every=2, model={"hidden": 6})
    protocol = Protocol("own", recipe, rays)
    results = compare(problem, ["phn-ls", "ls"], protocol, seeds=[0, 1], folder=tmp_path, progress=False)
    assert [(r.method, r.seed) for r in results] == [("phn-ls", 0), ("phn-ls", 1), ("ls", 0), ("ls", 1)]
    volumes: dict[str, list[float]] = {}
    for result in results:
        run = tmp_path / "runs" / f"{result.method}-{result.seed}"
        assert json.loads((run / "config.json").read_text())["seed"] == result.seed
        model = hf.load(run / "best.safetensors", target=problem.make_target())
        front = hf.evaluate(model, problem.test, rays)
        torch.testing.assert_close(result.losses(), front.losses, rtol=1e-5, atol=0)
        volumes.setdefault(result.method, []).append(front.hypervolume())
        spent = sum(json.loads(line)["seconds"] for line in (run / "metrics.jsonl").read_text().splitlines())
        assert result.seconds["training"] == pytest.approx(spent, abs=0.01) and result.seconds["total"] > spent
    _, lines = table(results, {"ls": 12.0})
    for name, seeds, _, volume, *_, seconds, apart, _ in lines:
        assert seeds == "2"
        first, second = volumes[name]
        assert first != second
        assert volume == f"{(first + second) / 2:.4f} +- {abs(first - second) / 2**0.5:.4f}"
        mine = [result.seconds["training"] for result in results if result.method == name]
        assert seconds == f"{sum(mine) / 2:.1f}" and apart == ("12.0" if name == "ls" else "-")


def test_an_interrupted_expansion_goes_on_with_the_point_it_was_at(tmp_path, monkeypatch):
    problem, protocol = (
        toys.vlmop2(),
        Protocol("best", Recipe(epochs=2, lr=1e-2), hf.rays(4, m=2), options={"cpmtl": Expansion(steps=2)}),
    )
    whole = compare(problem, ["cpmtl"], protocol, seeds=[0], folder=tmp_path / "whole", progress=False)
    real, tangents = Expansion.tangent, []

    def tangent(expansion, curvature, theta, objective):
        tangents.append(theta)
        if len(tangents) == 7:  # of the second model, in the middle of the way along its second objective
            raise KeyboardInterrupt
        return real(expansion, curvature, theta, objective)

    monkeypatch.setattr(Expansion, "tangent", tangent)
    with pytest.raises(KeyboardInterrupt):
        compare(problem, ["cpmtl"], protocol, seeds=[0], folder=tmp_path / "cut", progress=False)
    again = compare(problem, ["cpmtl"], protocol, seeds=[0], folder=tmp_path / "cut", progress=False)
    assert again[0].fronts == whole[0].fronts and len(tangents) == 4 * 2 * 2 + 1  # the seventh twice
    longer = replace(protocol, options={"cpmtl": Expansion(steps=3)})
    (tmp_path / "cut" / "results" / "cpmtl-0.json").unlink()
    (other,) = compare(problem, ["cpmtl"], longer, seeds=[0], folder=tmp_path / "cut", progress=False)
    assert len(tangents) == 17 + 4 * 2 * 3 and len(other.fronts["test"]["losses"]) == 4 * (1 + 2 * 3)


def test_results_of_another_comparison_are_refused_with_what_differs(tmp_path):
    problem, recipe = toys.vlmop2(), Recipe(epochs=1, lr=1e-2)
    protocol = Protocol("best", recipe, hf.rays(2, m=2))
    (result,) = compare(problem, ["ls"], protocol, seeds=[0], folder=tmp_path, progress=False)
    assert json.loads((tmp_path / "results" / "ls-0.json").read_text())["fronts"] == asdict(result)["fronts"]
    with pytest.raises(CheckpointError, match="rays"):
        compare(problem, ["ls"], Protocol("best", recipe, hf.rays(3, m=2)), seeds=[0], folder=tmp_path, progress=False)


def test_a_range_is_one_of_whole_numbers_if_both_its_ends_are():
    class Asked:
        def suggest_int(self, name, *ends, log):
            return "whole"

        def suggest_float(self, name, *ends, log):
            return "real"

    space = {"lr": (1e-3, 1), "hidden": (10, 100), "alpha": (1, 2.5)}
    assert suggest(Asked(), space) == {"lr": "real", "hidden": "whole", "alpha": "real"}


def test_no_hypernetwork_is_pruned_in_the_first_third_of_its_epochs(monkeypatch, tmp_path):
    seen, known = [], optuna.pruners.MedianPruner
    monkeypatch.setattr(optuna.pruners, "MedianPruner", lambda *given: seen.append(given) or known(*given))
    problem = replace(toys.fonseca(variables=3), sources=dict.fromkeys(("train", "val", "test"), NoData(1)))
    protocol = Protocol("quick", Recipe(epochs=9, lr=1e-2), hf.rays(3, 2))
    tune(problem, "phn-ls", protocol, space={"lr": [1e-2]}, storage=f"sqlite:///{tmp_path}/trials.db")
    assert seen == [(STARTUP, 4)]  # epochs 1 to 3 are below it


def test_the_distance_is_that_of_the_farthest_point_of_any_seed():
    known = Result.load(Path(__file__).parents[1] / "reproduction/results/full/studies/fonseca-5/results/epo-0.json")
    near, far = (
        replace(known, seed=seed, fronts={"test": known.fronts["test"] | {"losses": [[0.1, 1.0], [last, 1.0]]}})
        for seed, last in enumerate((0.2, 0.4))
    )
    truth = SimpleNamespace(distance=lambda losses: losses[:, 0])
    for group in ([near, far], [far, near]):
        columns, (row,) = table(group, {}, truth)
        assert dict(zip(columns, row, strict=True))["distance"] == "4.0e-01"
    columns, (row,) = table([near], {})
    assert "distance" not in columns and len(row) == len(columns) > 7


def test_results_of_another_problem_of_the_same_name_are_refused(tmp_path):
    protocol = Protocol("best", Recipe(epochs=1, lr=1e-2, batch_size=16), hf.rays(2, m=2))
    for made, same, other in (
        (lambda v: build("fonseca", variables=v), 2, 3),
        (own, 1.0, 2.0),
        (lambda width: own(width=width), 4, 5),
    ):
        folder = tmp_path / str(other)
        (first,) = compare(made(same), ["ls"], protocol, seeds=[0], folder=folder, progress=False)
        (again,) = compare(made(same), ["ls"], protocol, seeds=[0], folder=folder, progress=False)
        assert again.fronts == first.fronts
        with pytest.raises(CheckpointError, match="with other settings"):
            compare(made(other), ["ls"], protocol, seeds=[0], folder=folder, progress=False)


def own(scale: float = 1.0, *, width: int = 4, **splits) -> hf.Problem:
    """Somebody's problem, which has no name."""
    x = torch.linspace(-1, 1, 48)[:, None]
    data = (x, scale * torch.cat([x, x.square()], 1))
    losses = {f"l{j}": lambda output, batch, j=j: (output[:, 0] - batch[1][:, j]).square().mean() for j in (0, 1)}
    splits = {"val": data, "test": data} | splits
    return hf.supervised(
        data,
        **splits,
        losses=losses,
        reference=(9, 9),
        make_target=lambda: torch.nn.Sequential(torch.nn.Linear(1, width), torch.nn.Tanh(), torch.nn.Linear(width, 1)),
    )


@pytest.mark.parametrize(
    ("problem", "changes", "message"),
    [
        (own(), {"rays": hf.rays(3, m=3)}, "rays have the wrong shape"),
        (own(val=None), {}, "no val split"),
        (own(test=None), {}, "no test split"),
        (own(), {"recipe": Recipe(epochs=0)}, "epochs"),
        (own(), {"engine": "fast"}, "unknown engine"),
        (own(), {"rays": [[0.5, 0.5]]}, "PMTL divides the loss space"),
    ],
)
def test_what_cannot_be_compared_is_said_before_the_first_method(problem, changes, message, tmp_path):
    protocol = replace(Protocol("best", Recipe(epochs=1, batch_size=16), hf.rays(2, m=2)), **changes)
    with pytest.raises(hf.HyperfrontError, match=message):
        compare(problem, ["nsga3", "pmtl"], protocol, seeds=[0], folder=tmp_path / "never", progress=False)
    assert not (tmp_path / "never").exists()


def test_methods_and_seeds_are_lists_and_a_target_is_made_by_a_function(tmp_path):
    protocol = Protocol("best", Recipe(epochs=1, batch_size=16), hf.rays(2, m=2))
    for names, seeds in (("epo", [0]), (["epo"], 3)):
        with pytest.raises(hf.HyperfrontError, match="methods and seeds are lists"):
            compare(own(), names, protocol, seeds=seeds, folder=tmp_path)
    with pytest.raises(hf.HyperfrontError, match="a function without arguments"):
        hf.supervised((torch.ones(2, 1),), losses={"a": torch.mean, "b": torch.mean}, make_target=torch.nn.Linear(1, 1))


def test_a_damaged_result_says_what_to_do(tmp_path):
    (tmp_path / "results").mkdir()
    (tmp_path / "results" / "ls-0.json").write_text('{"format": ')
    protocol = Protocol("best", Recipe(epochs=1, batch_size=16), hf.rays(2, m=2))
    with pytest.raises(CheckpointError, match="remove the file"):
        compare(own(), ["ls"], protocol, seeds=[0], folder=tmp_path)


def test_rays_may_be_a_list(tmp_path):
    protocol = Protocol("best", Recipe(epochs=1, batch_size=16), [[0.5, 0.5], [0.2, 0.8]])
    (result,) = compare(own(), ["ls"], protocol, seeds=[0], folder=tmp_path, progress=False)
    assert len(result.fronts["test"]["losses"]) == 2


def test_pmtl_needs_several_rays(tmp_path):
    words = ["compare", "vlmop2", "--methods", "pmtl", "--rays", "1", "--seeds", "1", "--epochs", "1"]
    assert "PMTL" in hyperfront(*words, folder=tmp_path, code=2)


def test_what_is_left_out_of_the_table_is_said(tmp_path):
    words = ["compare", "vlmop2", "--seeds", "1", "--epochs", "1", "--out", "here", "--methods"]
    hyperfront(*words, "ls,nsga3", "--options", "nsga3.generations=2", "nsga3.population=8", folder=tmp_path)
    text = hyperfront(*words, "ls", folder=tmp_path)
    assert "nsga3 (seed 0)" in text and "nsga3" not in rows(text)


@pytest.mark.parametrize(
    ("search", "message"),
    [
        (["lr=-1,1e-3"], "lr is out of range"),
        (["epochs=1,0"], "epochs"),
        (["schedule=cosinus,cosine"], "unknown schedule"),
        (["lr=1e-3,1e-3"], "listed twice"),
        (["lr=1e-3", "lr=1e-2"], "a setting is named twice"),
        (["hidden=abc"], "the hypernetwork does not take"),
        (["width=1,2"], "the hypernetwork does not take"),
    ],
)
def test_a_search_with_a_value_that_cannot_be_tries_none(search, message, tmp_path):
    words = ["tune", "vlmop2", "--method", "phn-epo", "--epochs", "1", "--search"]
    assert message in hyperfront(*words, *search, folder=tmp_path, code=2)
    assert not [*tmp_path.rglob("*.db")]


def test_a_study_without_trials_takes_other_settings(tmp_path):
    protocol = Protocol("best", Recipe(epochs=1, lr=1e-2), hf.rays(2, m=2))
    storage = f"sqlite:///{tmp_path / 'trials.db'}"

    class Stop(Callback):
        def stepped(self) -> None:
            raise KeyboardInterrupt

    searching = {"space": {"lr": [1e-2]}, "storage": storage}
    with pytest.raises(KeyboardInterrupt):
        tune(toys.vlmop2(), "ls", protocol, **searching, callbacks=[Stop()])
    longer = replace(protocol, recipe=Recipe(epochs=2, lr=1e-2))
    assert tune(toys.vlmop2(), "ls", longer, **searching).trials["complete"] == 1
    with pytest.raises(CheckpointError, match="trials with other settings"):
        tune(toys.vlmop2(), "ls", protocol, **searching)


def test_several_processes_share_the_work_and_end_with_what_one_would(tmp_path):
    words = ["compare", "vlmop2", "--methods", "cpmtl,ls,epo,nsga3", "--rays", "3", "--seeds", "2", *QUICK, "--out"]
    hyperfront(*words, "alone", folder=tmp_path)
    both = [started(*words, "shared", folder=tmp_path) for _ in range(2)]
    printed = [process.communicate()[0] for process in both]
    assert [process.returncode for process in both] == [0, 0]
    for text in printed:
        assert set(rows(text)) == {"method", "cpmtl", "ls", "epo", "nsga3"}
    for file in (tmp_path / "alone" / "results").iterdir():
        alone, shared = (Result.load(tmp_path / each / "results" / file.name) for each in ("alone", "shared"))
        assert alone.fronts == shared.fronts
    for log in (tmp_path / "shared" / "runs").glob("*/metrics.jsonl"):
        assert [json.loads(line)["epoch"] for line in log.read_text().splitlines()] == [1, 2]  # each epoch once


def test_what_another_process_wrote_meanwhile_must_be_of_the_same_comparison(tmp_path):
    protocol = Protocol("best", Recipe(epochs=1, lr=1e-2), hf.rays(2, m=2))
    problem, files = toys.vlmop2(), tmp_path / "results"

    def beside(method, seed, found):
        if method == "epo":  # while this one is at work, another finishes the next
            longer = replace(protocol, recipe=Recipe(epochs=2, lr=1e-2))
            compare(problem, ["ls"], longer, seeds=[0], folder=tmp_path, runs=tmp_path / "others", progress=False)

    with pytest.raises(CheckpointError, match="with other settings"):
        compare(problem, ["epo", "ls"], protocol, seeds=[0], folder=tmp_path, progress=False, notify=beside)
    assert {file.name for file in files.iterdir()} == {"epo-0.json", "ls-0.json"}


def test_results_that_are_there_need_no_data(tmp_path):
    folder, study = ROOT / "reproduction" / "results" / "full" / "studies" / "adult-phn", "adult-phn"
    store = Store(ROOT / "reproduction" / "results", "full", data_dir=tmp_path / "nowhere", runs=tmp_path)
    assert len(store.results(study)) == len([*(folder / "results").iterdir()]) == 6


@pytest.mark.parametrize(
    "data",
    [
        torch.ones(4, 2, dtype=torch.bfloat16),
        torch.ones(4, 2, requires_grad=True),
        torch.ones(4, 2, dtype=torch.complex64).conj(),
        torch.ones(4, 2, dtype=torch.bool),
    ],
    ids=lambda data: str(data.dtype),
)
def test_data_of_any_kind_have_a_checksum(data):
    problem = hf.supervised((data, torch.zeros(len(data))), losses={"a": abs, "b": abs})
    twice = [_checksum(replace(problem, sources=dict(problem.sources))) for _ in range(2)]
    assert twice[0] == twice[1]


def test_options_of_a_hypernetwork_are_tried_together_with_the_others():
    protocol = Protocol("best", Recipe(epochs=1), hf.rays(2, m=2))
    space = {"hypernet": ["chunked"], "chunk": [1, 2]}
    assert check_search(toys.vlmop2(), "phn-ls", protocol, space=space, trials=None, seed=0) == 2
    with pytest.raises(hf.HyperfrontError, match="does not take"):
        check_search(toys.vlmop2(), "phn-ls", protocol, space={"chunk": [2]}, trials=None, seed=0)
