"""Every command takes one's own problem: ``package.module:factory``, a CSV file, or the run of a table."""

from __future__ import annotations

import json

import pytest
import torch

import hyperfront as hf
from hyperfront.problem import Gap
from hyperfront.training.defaults import usual_solver
from tests.helpers.command import hyperfront
from tests.helpers.tables import csv_of, people, without

MINE = """
import torch
import hyperfront as hf


def problem():
    x = torch.randn(160, 3, generator=torch.Generator().manual_seed(0))
    y = (x[:, 0] > 0).float()
    parts = [(x[s], y[s]) for s in (slice(0, 80), slice(80, 120), slice(120, 160))]
    losses = {
        "fit": lambda o, b: (o[:, 0] - b[1]).square().mean() + 0.01,
        "size": lambda o, b: o[:, 0].square().mean() + 0.01,
    }
    return hf.supervised(*parts, losses=losses, reference=(3, 3), make_target=lambda: torch.nn.Linear(3, 1))
"""
TABLE = ["people.csv", "--target", "paid", "--sensitive", "group"]
FEW = ["--epochs", "1", "--rays", "3"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    place = tmp_path_factory.mktemp("mine")
    (place / "my_own_problem.py").write_text(MINE)
    (place / "people.csv").write_text(csv_of(without(people(300), "amount")))
    printed = hyperfront("train", "my_own_problem:problem", *FEW, "--out", "run", folder=place)
    assert "explore run --problem my_own_problem:problem" in printed
    hyperfront("train", *TABLE, "--epochs", "1", "--out", "kept", folder=place)
    return place


def test_a_run_of_a_factory_is_evaluated_and_exported_with_the_problem_alone(folder):
    given = ["--problem", "my_own_problem:problem"]
    assert "hypervolume" in hyperfront("evaluate", "run", *given, "--rays", "4", folder=folder)
    printed = hyperfront("export", "run", "--at", "0.5", "0.5", "--formats", "safetensors", *given, folder=folder)
    assert "model.safetensors" in printed


@pytest.mark.parametrize("command", ["evaluate", "explore", "serve", "export"])
def test_the_error_of_a_run_without_code_names_the_option(command, folder):
    words = ["--at", "0.5", "0.5"] if command == "export" else []
    said = hyperfront(command, "run", *words, folder=folder, code=2)
    assert "--problem package.module:factory" in said


@pytest.mark.parametrize("problem", [["my_own_problem:problem"], TABLE, ["kept"]])
def test_methods_are_compared_on_ones_own_problem(problem, folder):
    few = [*FEW, "--seeds", "1", "--methods", "phn-ls", "--out", f"compared-{problem[0]}".replace(":", "-")]
    said = hyperfront("compare", *problem, *few, folder=folder)
    assert "phn-ls" in said and "preset own" in said and "hypervolume" in said


def test_settings_are_tuned_on_ones_own_problem(folder):
    options = ["--search", "lr=1e-3,1e-2", "--method", "phn-ls", *FEW, "--out", "tuned"]
    assert "best hypervolume" in hyperfront("tune", "my_own_problem:problem", *options, folder=folder)
    assert json.loads((folder / "tuned" / "phn-ls.json").read_text())["settings"]["lr"] in (1e-3, 1e-2)


@pytest.mark.parametrize(
    "words, said",
    [
        (["compare", "people.csv"], "--target COLUMN"),
        (["compare", "my_own_problem:problem", "--target", "paid"], "takes no --target"),
        (["compare", "my_own_problem:nothing"], "cannot be imported"),
        (["tune", "people.csv", "--target", "paid", "--preset", "paper"], "takes no --preset"),
        (["tune", "no/such/place"], "package.module:factory, a CSV file or a run"),
        (["compare", "run"], "name the problem itself"),
        (["train", "aduld"], "did you mean 'adult'"),
    ],
)
def test_mistakes_name_the_option(words, said, folder):
    assert said in hyperfront(*words, folder=folder, code=2)


def test_losses_that_are_gaps_are_trained_with_loss_weights():
    """A gap may be zero on the whole front: no ray has equal products there."""
    rows = torch.randn(20, 2), torch.ones(20)
    gap = Gap(lambda o, b: o[:, 0].sigmoid(), lambda b: torch.stack([b[0][:, 0] > 0, b[0][:, 0] <= 0]))
    losses = {"fit": lambda o, b: o.square().mean(), "gap": hf.Loss(gap, bounds=(0, 1))}
    asked = hf.supervised(rows, rows, losses=losses, reference=(9, 9), make_target=lambda: torch.nn.Linear(2, 1))
    assert isinstance(usual_solver(asked), hf.LS)
    plain = hf.supervised(rows, losses={"fit": losses["fit"], "size": losses["fit"]}, reference=(9, 9))
    assert isinstance(usual_solver(plain), hf.EPO)
    run = hf.fit(asked.model(hidden=4), asked, epochs=1, batch_size=20, callbacks=[])
    assert run.model.record["solver"] == "LS"


def test_a_narrow_hypernetwork_starts_with_numbers():
    """With four hidden units, one draw in forty has units that are all zero."""
    torch.manual_seed(0)
    for _ in range(200):
        model = hf.wrap(torch.nn.Linear(2, 1), ["a", "b"], hidden=4)
        assert all(weight.isfinite().all() for weight in model.parameters())
