"""A short form of ``make fuzz``: the same inputs, but the first thousands only."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.fuzz.record import table

ROOT = Path(__file__).parents[1]
INPUTS = {"api": 1200, "files": 600, "routes": 600, "sockets": 20, "fit": 8}


@pytest.mark.parametrize("family", INPUTS)
def test_random_inputs_are_answered_or_refused(family, tmp_path):
    """A process of its own, since children are forked, and no thread may run meanwhile."""
    out = tmp_path / "counts.json"
    words = [sys.executable, "-m", "tests.fuzz", family, "--inputs", str(INPUTS[family]), "--out", str(out)]
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    assert json.loads(out.read_text())[family]["inputs"] == INPUTS[family]


def test_the_page_shows_the_recorded_counts():
    recorded = ROOT / "docs" / "fuzz.json"
    assert table(recorded) in (ROOT / "docs" / "reliability.md").read_text()
