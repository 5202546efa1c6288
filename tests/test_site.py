"""The documentation site: its tutorials run, and it builds without a warning."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from tests.helpers.command import hyperfront

DOCS = Path(__file__).parents[1] / "docs"
TUTORIALS = sorted((DOCS / "tutorials").glob("*.md"))


@pytest.mark.parametrize("page", TUTORIALS, ids=lambda path: path.stem)
def test_a_tutorial_runs_from_top_to_bottom(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    threads, names = torch.get_num_threads(), {}
    torch.set_num_threads(1)
    blocks = re.findall(r"^```(python|console)\n(.*?)^```", page.read_text(), flags=re.DOTALL | re.MULTILINE)
    assert blocks
    for language, block in blocks:
        if language == "python":
            exec(compile(block, page.name, "exec"), names)  # our own text
        for command in re.findall(r"^\$ hyperfront (.*)", block, flags=re.MULTILINE):
            hyperfront(*shlex.split(command), folder=tmp_path)
    torch.set_num_threads(threads)


@pytest.mark.slow
def test_the_site_is_built_without_a_warning(tmp_path):
    for package in ("sphinx", "myst_parser", "furo"):
        pytest.importorskip(package, reason="needs the extra docs: pip install -e '.[docs]'")
    command = [
        sys.executable,
        "-m",
        "sphinx",
        "-q",
        "-W",
        "--keep-going",
        "-d",
        tmp_path / "trees",
        DOCS,
        tmp_path / "site",
    ]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "ParetoModel" in (tmp_path / "site" / "reference" / "hyperfront.html").read_text()
