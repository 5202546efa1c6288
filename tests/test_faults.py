"""Bad luck on purpose, in its short form, and the recorded counts of the long one (``make faults``)."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests import mutants
from tests.faults import record

ROOT = Path(__file__).parents[1]


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="the faults need the file systems of Linux")
def test_a_few_faults_of_every_kind_end_as_promised():
    environment = os.environ | {"OMP_NUM_THREADS": "1", "PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}{ROOT}"}
    done = subprocess.run(
        [sys.executable, "-m", "tests.faults", "--quick"], cwd=ROOT, capture_output=True, text=True, env=environment
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert [line.partition(":")[0] for line in done.stdout.splitlines()] == [*record.ROWS]


def test_the_page_shows_the_recorded_counts_and_nothing_failed():
    counts, page = record.load(), record.PAGE.read_text()
    assert record.with_table(page, counts) == page
    assert not [row for row, kinds in counts.items() if any(count["failed"] for count in kinds.values())]


def test_the_page_shows_the_recorded_scores_of_mutants():
    scores, page = mutants.load(), record.PAGE.read_text()
    assert mutants.with_table(page, scores) == page
    assert all(score["noticed"] + len(score["survivors"]) == score["tried"] for score in scores.values())
