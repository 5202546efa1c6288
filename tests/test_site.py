"""The documentation site: its tutorials and examples run, and it builds without a warning."""

from __future__ import annotations

import re
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
import torch

from tests.helpers.tutorial import follow

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
TUTORIALS = sorted((DOCS / "tutorials").glob("*.md"))
REFERENCE = [page for page in sorted((DOCS / "reference").glob("*.rst")) if "code-block:: python" in page.read_text()]


@pytest.mark.parametrize("page", TUTORIALS, ids=lambda path: path.stem)
def test_a_tutorial_runs_from_top_to_bottom(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    follow(page, tmp_path)
    torch.set_num_threads(threads)
    for file in tmp_path.glob("*.py"):  # another page may have a module of that name
        sys.modules.pop(file.stem, None)


@pytest.mark.parametrize("page", REFERENCE, ids=lambda path: path.stem)
def test_the_example_of_a_reference_page_runs(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    torch.manual_seed(0)
    blocks = re.findall(r"^\.\. code-block:: python\n\n((?:   .*\n|\n)+)", page.read_text(), flags=re.MULTILINE)
    exec(compile("".join(map(textwrap.dedent, blocks)), page.name, "exec"), {})  # our own text


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


def test_no_word_is_misspelled():
    pytest.importorskip("codespell_lib", reason="needs the extra docs: pip install -e '.[docs]'")
    done = subprocess.run([sys.executable, "-m", "codespell_lib"], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
