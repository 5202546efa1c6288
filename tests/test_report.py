"""The report of a run: one page with the choice, its intervals, groups, data and settings, without a script."""

from __future__ import annotations

import re

import pytest

import hyperfront as hf
from hyperfront import tabular
from hyperfront.apps.report import report
from tests.helpers import explored
from tests.helpers.chromium import chromium
from tests.helpers.command import hyperfront
from tests.helpers.tables import csv_of, people, without

__all__ = ["chromium"]  # the fixture


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A run of a table with a choice."""
    folder = tmp_path_factory.mktemp("report")
    (folder / "people.csv").write_text(csv_of(without(people(400), "amount")))
    words = ["--target", "paid", "--sensitive", "group", "--minimize", "error", "--limit", "fpr_gap=.9"]
    hyperfront("train", "people.csv", *words, "--epochs", "2", "--out", "run", folder=folder)
    return folder / "run"


def test_one_page_has_the_choice_its_intervals_groups_data_and_settings(run):
    (run / "command.txt").write_text("hyperfront train people.csv --target paid\n")
    assert "report.html" in hyperfront("report", "run", folder=run.parent)
    text = (run / "report.html").read_text()
    headings = re.findall("<h2>(.*?)</h2>", text)
    assert headings == [
        "The chosen trade-off", "How sure it is", "Groups", "The front", "Data", "Settings", "How to reproduce"
    ]  # fmt: skip
    assert "Least error, within gap in false positive rates &lt;= 0.9" in text
    assert "exact, binomial test" in text and "asymptotic, bootstrap" in text
    assert "60 validation rows" in text and "60 test rows" in text  # training has looked at the test rows
    assert "false positives" in text and "north" in text and "240 training rows" in text
    assert "hyperfront train people.csv --target paid" in text and text.count("data:image/png") == 2
    assert "<script" not in text and not re.findall(r'(?:src|href)="(?!data:)', text)


def test_a_ray_of_ones_own_has_no_test_rows_and_is_said_to_be_no_choice(run):
    hyperfront("report", "run", "--at", "0.2", "0.4", "0.4", "--title", "A <b>", "--out", "own.html", folder=run.parent)
    text = (run.parent / "own.html").read_text()
    assert "Training was not asked to choose" in text and ">60 test rows</th>" not in text and "A &lt;b&gt;" in text


def test_runs_without_rows_or_groups_have_a_shorter_page(tmp_path):
    folder = explored.toy(tmp_path / "toy", "vlmop2")
    hyperfront("report", str(folder), folder=tmp_path)
    text = (folder / "report.html").read_text()
    assert "Groups" not in text and "The front" in text
    made = explored.own(tmp_path / "own")
    page = report(made.model, explored.regression(), made.front, made.folder)
    assert "target=YourModule()" in page and "target=" not in text  # a built-in problem names its module
    assert "bootstrap" in page and "sharpness" in page and "Groups" not in page


@pytest.mark.parametrize("target", ["amount", "job"])
def test_every_kind_of_target_has_a_report(target):
    table = people(300)
    table["job"] = [job or "cook" for job in table["job"]]
    problem = tabular.problem(table, target, sensitive="group")
    run = hf.fit(problem.model(), problem, epochs=1, callbacks=[])
    assert "<h2>Groups</h2>" in report(run.model, problem, run.front)


@pytest.mark.browser
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_phone_shows_the_report_without_scrolling_sideways(chromium, run, scheme):
    hyperfront("report", "run", "--out", f"{scheme}.html", folder=run.parent)
    context = chromium.new_context(viewport={"width": 360, "height": 780}, color_scheme=scheme)
    page, faults = context.new_page(), []
    page.on("console", lambda line: faults.append(line.text))
    page.goto((run.parent / f"{scheme}.html").as_uri())
    assert page.evaluate("document.documentElement.scrollWidth") <= 360
    assert page.locator("img").evaluate_all("images => images.every((image) => image.naturalWidth > 300)")
    assert not faults
    context.close()
