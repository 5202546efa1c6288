"""Every script in benchmarks/ and examples/ runs in its quick form, in a folder elsewhere, without a GPU."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.helpers.data import DATA

ROOT = Path(__file__).parents[1]
PROCESSES = ROOT / "benchmarks" / "together"
"""The processes that ``benchmarks/ranks.py`` starts; they have no form of their own."""
SCRIPTS = [
    path
    for folder in ("benchmarks", "examples")
    for path in sorted((ROOT / folder).rglob("*.py"))
    if "__main__" in path.read_text() and path.parent != PROCESSES
]


@pytest.mark.slow
@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_a_script_has_a_quick_form_that_runs_and_prints(path, tmp_path):
    roots = [str(ROOT / "src"), str(ROOT), str(ROOT / "benchmarks")]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(roots), "CUDA_VISIBLE_DEVICES": ""}
    environment |= {"HYPERFRONT_DATA": str(DATA)} if DATA else {}
    done = subprocess.run(
        [sys.executable, str(path), "--quick"], cwd=tmp_path, capture_output=True, text=True, env=environment
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.strip()
    if done.stdout.startswith("this script needs"):  # a package or data that are not here
        pytest.skip(done.stdout.strip())


def test_every_script_is_found():
    """A module without a main is a part of a script: it lies in a package, so that no script hides beside it."""
    folders = {path.parent for path in SCRIPTS} - {ROOT / "benchmarks" / "stopwatch"}  # a script among its parts
    assert not {path for folder in folders for path in folder.glob("*.py")} - set(SCRIPTS)
