"""The tables of docs/results.md and of the README hold the numbers of the result files."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from hyperfront.comparison.result import load_folder
from hyperfront.comparison.table import COLUMNS, summarize
from reproduction.paper import said

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "reproduction" / "results"
PROBLEMS = {
    "Multi-(Fashion+MNIST)": ["multi-fashion-mnist"],
    "Multi-Fashion": ["multi-fashion"],
    "Multi-MNIST": ["multi-mnist"],
    "Adult, Default, Bank": ["adult", "default", "bank"],
    "SARCOS, the paper's leaky split": ["sarcos"],
    "SARCOS, split by blocks": ["sarcos"],
    "NYUv2, 288 x 384": ["nyuv2"],
}
PAIR = re.compile(r"(\d?\.\d+) / (\d?\.\d+)")


def rows_of(file: str, first: str) -> dict[str, list[str]]:
    """The rows of the table whose head begins so, by their first cell."""
    lines = (ROOT / file).read_text().partition(f"| {first} ")[2].partition("\n\n")[0].split("\n")[2:]
    cells = [[cell.strip() for cell in line.strip("| ").split(" | ")] for line in lines]
    return {name: others for name, *others in cells}


def short(cell: str) -> str:
    """The number at the start of a cell, with three digits and without a leading zero."""
    return f"{float(cell.partition(' ')[0]):.3f}".removeprefix("0")


@pytest.fixture(scope="module")
def measured() -> dict[str, set[tuple[str, str]]]:
    """Hypervolume and uniformity of every hypernetwork trained with EPO, by problem."""
    rows = summarize([*load_folder(RESULTS / "full"), *load_folder(RESULTS, without="studies")])
    problem, method, volume, uniformity = map(COLUMNS.index, ("problem", "method", "HV", "uniformity"))
    found: dict[str, set[tuple[str, str]]] = {}
    for row in rows:
        if row[method] == "phn-epo":
            found.setdefault(row[problem], set()).add((short(row[volume]), short(row[uniformity])))
    return found


def test_the_table_against_the_paper_holds_results(measured):
    rows = rows_of("docs/results.md", "data | preset `best`")
    assert {*rows} == {*PROBLEMS}
    for name, (best, as_paper, paper) in rows.items():
        known = set.union(*(measured[problem] for problem in PROBLEMS[name]))
        pairs = PAIR.findall(f"{best}, {as_paper}")
        assert len(pairs) >= 2 * len(PROBLEMS[name]) and {*pairs} <= known, name
        numbers = [tuple(map(float, pair)) for pair in PAIR.findall(paper)]
        stated = [tuple(map(float, said("own-rays", problem, "phn-epo"))) for problem in PROBLEMS[name]]
        assert not numbers or numbers == stated, name


@pytest.mark.parametrize("file", ["docs/results.md", "README.md"])
def test_the_table_against_separate_models_holds_the_verdicts_of_tables_1_to_4(file):
    known: dict[str, list[str]] = {}
    for number in range(1, 5):
        document = json.loads((RESULTS / "full" / f"table-{number}" / "data.json").read_text())
        for table in document["tables"]:
            for problem, _, ours, best, theirs, *_ in table["rows"] if "best baseline" in table["columns"] else ():
                ends = f"{short(theirs)} ({best.partition(',')[0]})"
                known[problem] = [*known.get(problem, [])[:-1], short(ours), ends]
    rows = rows_of(file, "data, number of rays")
    assert len(rows) >= 4
    for name, cells in rows.items():
        assert cells == known[name.rpartition(", ")[0]], name
