"""The quick start of docs/tables.md: two commands, or ten lines of Python, from a CSV to page, card and server."""

from __future__ import annotations

import random
import re
import shlex
from pathlib import Path

import pytest

from hyperfront.apps.serve.service import open_run
from tests.helpers.command import hyperfront

TEXT = (Path(__file__).parents[1] / "docs" / "tables.md").read_text().partition("## scikit-learn")[0]


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder with ``people.csv``, which has the columns that the document names, and new rows without the target."""
    drawn, lines = random.Random(0), []
    for _ in range(1500):
        age, sex, grade = drawn.randint(18, 70), drawn.choice("fm"), drawn.gauss(0, 1)
        lines.append(f"{age},{sex},{grade:.2f},{'yes' if grade + drawn.gauss(0, 1) > 0.2 else 'no'}\n")
    (tmp_path / "people.csv").write_text("age,sex,grade,hired\n" + "".join(lines))
    (tmp_path / "new.csv").write_text("age,sex,grade\n30,f,1.2\n40,m,-2\n")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_two_commands_lead_to_page_card_and_server(folder):
    block = re.search(r"```console\n(.*?)```", TEXT, flags=re.DOTALL)[1]
    train, serve = (shlex.split(line.removeprefix("$ ")) for line in block.splitlines())
    assert train[:2] == ["hyperfront", "train"] and serve == ["hyperfront", "serve", "runs/people"]
    hyperfront(*train[1:], "--epochs", "30", folder=folder)
    run = folder / "runs" / "people"
    assert "certified" in (run / "README.md").read_text()
    assert "YourModule" not in (run / "page.html").read_text()  # a table needs no module of the reader
    service = open_run(run, cache_bytes=2**20)
    assert service.default_ray is not None and service.table is not None
    assert hyperfront("predict", "runs/people", "new.csv", "--out", "predictions.csv", folder=folder)


def test_ten_lines_of_python_do_the_same(folder, capsys):
    block = re.search(r"```python\n(.*?)```", TEXT, flags=re.DOTALL)[1]
    lines = [line for line in block.splitlines() if line.strip()]
    assert len(lines) <= 10
    made: dict[str, object] = {}
    exec(block.replace('out="runs/people"', 'out="runs/people", epochs=30, callbacks=[]'), made)
    printed = capsys.readouterr().out
    assert "certified" in printed and "95% intervals from" in printed and "## Uncertainty" in printed
    assert (folder / "page.html").exists()
    assert len(made["predicted"].values) == 2
