"""Statements of the paper: judged by the cells of tables, made up for each answer."""

from __future__ import annotations

import copy
import json
from pathlib import Path

import pytest

from reproduction.items import ITEMS
from reproduction.verdicts import STATEMENTS, findings

FULL = Path(__file__).parents[1] / "reproduction" / "results" / "full"


@pytest.fixture(scope="module")
def documents():
    """The documents of all items."""
    return {name: json.loads((FULL / name / "data.json").read_text()) for name in ITEMS}


def changed(documents, item: str, column: str, cell: str, *, where: str):
    """The documents with this cell in the rows of an item that contain ``where``."""
    documents = copy.deepcopy(documents)
    for table in documents[item]["tables"]:
        for row in table["rows"]:
            if where in row and column in table["columns"]:
                row[table["columns"].index(column)] = cell
    return documents


def holds(documents, words: str) -> str:
    """How the statement with these words fared."""
    (found,) = [finding for finding in findings(documents) if words in finding.says]
    return found.holds


def test_every_statement_is_judged_on_every_item(documents):
    for statement in STATEMENTS:
        assert all([*statement.judge(documents[item])] for item in statement.items), statement.says
    assert {finding.says for finding in findings(documents)} == {statement.says for statement in STATEMENTS}


def test_a_statement_whose_items_were_not_made_is_left_out(documents):
    (found,) = findings({"figure-9": documents["figure-9"]})
    assert found.items == ("figure-9",)


@pytest.mark.parametrize(
    ("words", "item", "where", "column", "cells"),
    [
        ("known fronts", "figure-1", "PHN-EPO", "largest distance", {"1.0e-07": "in part", "1.0e-02": "in part"}),
        ("never trained", "appendix-b2", "unseen", "HV", {"0.9 +- 0.1": "yes", "0.1 +- 0.01": "no"}),
        ("alpha", "figure-10", "alpha", "HV", {"2.7 +- 0.1": "yes"}),
        ("hidden dimension", "figure-10", "hidden dimension", "HV", {"2.7 +- 0.1": "undecided"}),
        ("paper's hypervolumes", "table-6", "PHN-LS", "HV", {"9.000": "in part", "0.001": "in part"}),
        ("tenth", "figure-6", "LS", "HV, same rays", {"9.000": "no", "0.100": "undecided"}),
        ("less time", "table-3", "PHN-LS", "seconds", {"1.0": "yes", "999.0": "in part"}),
    ],
)
def test_the_answer_follows_the_cells(documents, words, item, where, column, cells):
    for cell, answer in cells.items():
        assert holds(changed(documents, item, column, cell, where=where), words) == answer


@pytest.mark.parametrize(("cell", "word"), [("12.0", "yes"), ("> 12.0", "yes"), ("3.0", "no"), ("> 3.0", "open")])
def test_ten_times_is_open_where_too_few_models_were_trained(documents, cell, word):
    column = "times as long"
    made = changed(documents, "figure-5", column, cell, where="Adult")
    judge = next(statement.judge for statement in STATEMENTS if "figure-5" in statement.items)
    rows = [row for table in made["figure-5"]["tables"] if column in table["columns"] for row in table["rows"]]
    words = [*judge(made["figure-5"])]
    assert {answer for answer, row in zip(words, rows, strict=True) if row[0] == "Adult"} == {word}
