"""From a CSV that the package never saw to a front, a page, a card, a choice and predictions: two commands."""

from __future__ import annotations

import csv
import json

import pytest

import hyperfront as hf
from hyperfront.apps.cli.named import find
from hyperfront.errors import HyperfrontError
from tests.helpers.command import hyperfront
from tests.helpers.tables import csv_of, people, without

TABLE = without(people(400), "amount")


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    folder = tmp_path_factory.mktemp("table")
    (folder / "people.csv").write_text(csv_of(TABLE))
    words = ["--target", "paid", "--sensitive", "group", "--minimize", "error", "--limit", "fpr_gap=.9"]
    printed = hyperfront("train", "people.csv", *words, "--epochs", "3", "--out", "run", folder=folder)
    return folder, printed


def test_one_command_leads_from_a_csv_to_a_run_folder_with_page_card_and_choice(trained):
    folder, printed = trained
    assert "no, yes" in printed and "north; south" in printed and "240 train" in printed
    names = {file.name for file in (folder / "run").iterdir()}
    assert {"front.json", "page.html", "README.md", "choice.json", "chosen.safetensors", "chosen.py"} <= names
    choice = json.loads((folder / "run" / "choice.json").read_text())
    assert choice["goal"] == "error" and choice["limits"] == {"fpr_gap": ["<=", 0.9]} and "error" in choice["test"]
    card = (folder / "run" / "README.md").read_text()
    assert card.startswith("# paid, predicted from people.csv\n\nTableNet for the trade-off log_loss ")
    assert (
        "| gap in false positive rates | <= 0.9" in card
        and "| error | goal |" in card
        and "north, south" in card
        and "probability is above 0.5" in card
    )
    model = hf.load(folder / "run")
    assert model.record["problem"] == "table"
    page = (folder / "run" / "page.html").read_text()
    assert "paid" in page and "south" in page


@pytest.mark.parametrize("target", ["paid", "amount", "job"])
def test_a_table_without_groups_has_a_page_and_a_card(target, tmp_path):
    table = people(300)
    table["job"] = [job or "cook" for job in table["job"]]
    (tmp_path / "people.csv").write_text(csv_of(table))
    hyperfront("train", "people.csv", "--target", target, "--epochs", "1", "--out", "run", folder=tmp_path)
    assert target in (tmp_path / "run" / "page.html").read_text()
    card = (tmp_path / "run" / "README.md").read_text()
    assert "people.csv" in card and "180 train" in card and "formula" not in card and "schema =" not in card


def test_a_limit_that_cannot_be_certified_loses_nothing(trained):
    folder, _ = trained
    words = ["--target", "paid", "--sensitive", "group", "--minimize", "error", "--confidence", ".95", "--epochs", "3"]
    refused = hyperfront("train", "people.csv", *words, "--limit", "error=.01", "--out", "no", folder=folder, code=2)
    assert "expected:" in refused and {"front.json", "page.html"} <= {file.name for file in (folder / "no").iterdir()}
    again = "--out no --resume"
    assert again in refused
    printed = hyperfront("train", "people.csv", *words, "--limit", "error=.9", *again.split(), folder=folder)
    certificate = json.loads((folder / "no" / "choice.json").read_text())["certificate"]
    assert certificate["confidence"] == 0.95 and certificate["rows"] == 40
    assert "with probability 0.95" in printed and "at most 0.9" in printed


def test_a_second_command_predicts_new_rows(trained):
    folder, _ = trained
    table = without(people(30, seed=3), "amount", "paid")
    table["job"][:4] = "king"
    (folder / "new.csv").write_text(csv_of(table))
    printed = hyperfront("predict", "run", "new.csv", "--out", "out.csv", folder=folder)
    assert "30 rows" in printed and "4 values of job did not occur in training and count" in printed
    rows = [*csv.DictReader((folder / "out.csv").read_text().splitlines())]
    assert len(rows) == 30 and {row["paid"] for row in rows} <= {"no", "yes"}
    assert all((float(row["probability"]) > 0.5) == (row["paid"] == "yes") for row in rows)
    at_a_ray = hyperfront("predict", "run", "new.csv", "--ray", "1", "0", "0", folder=folder)
    assert "and 20 more" in at_a_ray


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--target", "payed"], "did you mean 'paid'"),
        (["--target", "paid", "--limit", "error=.1"], "--minimize"),
        (["--target", "paid", "--minimize", "error", "--confidence", ".95"], "--limit"),
        (["--target", "paid", "--minimize", "error", "--limit", "fpr=.5", "--confidence", "2"], "no probability"),
        (["--target", "paid", "--minimize", "eror"], "no loss or score"),
        (["--target", "paid", "--sensitive", "age"], "--cuts age=25,60"),
        (["--target", "paid", "--sensitive", "age", "--cuts", "age=old"], "not a number"),
        (["--target", "paid", "--sensitive", "group", "--cuts", "age=40"], "only sensitive columns"),
        (["--target", "paid", "--out", "run"], "already holds a run"),
        (["--target", "paid", "--minimize", "error", "--limit", "fpr=low"], "not a number"),
    ],
)
def test_mistakes_are_answered_before_anything_is_trained(words, said, trained):
    folder, _ = trained
    assert said in hyperfront("train", "people.csv", *words, folder=folder, code=2)
    assert not (folder / "runs").exists() or not any((folder / "runs").iterdir())


def test_a_run_without_a_choice_asks_for_a_ray(trained):
    folder, _ = trained
    (folder / "run" / "choice.json").rename(folder / "run" / "kept.json")
    try:
        assert "--ray" in hyperfront("predict", "run", "people.csv", folder=folder, code=2)
    finally:
        (folder / "run" / "kept.json").rename(folder / "run" / "choice.json")


def test_compare_and_tune_take_the_objectives_of_a_table(trained):
    folder, _ = trained
    table = str(folder / "people.csv")
    named = find(table, target="paid", sensitive=("group",), objectives=("log_loss", "fpr_gap"))
    assert named.problem.objectives == ("log_loss", "smooth_fpr_gap") and named.word == "people-log_loss-fpr_gap"
    with pytest.raises(HyperfrontError, match="takes no --objectives"):
        find("zdt2", objectives=("log_loss",))
    for command in ("compare", "tune"):  # refused before anything is trained
        words = ["--target", "paid", "--objectives", "log_loss", "fprgap"]
        assert "did you mean 'fpr_gap'" in hyperfront(command, table, *words, folder=folder, code=2)
