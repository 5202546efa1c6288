"""The documents: files that they name exist, and their Python imports names that exist."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

import hyperfront as hf

ROOT = Path(__file__).parents[1]
DOCUMENTS = [*(ROOT / f"{name}.md" for name in ("README", "CONTRIBUTING", "SECURITY")), *(ROOT / "docs").glob("*.md")]
HOMES = (ROOT, ROOT / "src", ROOT / "src" / "hyperfront", ROOT / "docs")
FILE = re.compile(r"`((?:[\w.-]+/)+(?:[\w-]+\.(?:py|js|md|toml|yml|h))?)`")
"""A path to a source file or a folder, as text in backquotes."""
MADE = ("runs", "results", "times")
"""Folders that commands make."""


def names(document: Path) -> list[str]:
    """The paths in the repository that a document names."""
    return [name for name in FILE.findall(document.read_text()) if name.partition("/")[0] not in MADE]


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_files_that_a_document_names_exist(document):
    assert not [name for name in names(document) if not any((home / name).exists() for home in HOMES)]


def test_paths_are_found_in_documents():
    assert "training/step.py" in names(ROOT / "docs" / "design.md")


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_python_in_a_document_imports_and_names_what_exists(document):
    for block in re.findall(r"```python\n(.*?)```", document.read_text(), flags=re.DOTALL):
        tree = ast.parse(block)
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom) and node.module.partition(".")[0] in ("hyperfront", "reproduction"):
                exec(ast.unparse(node), {})
            elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "hf":
                assert hasattr(hf, node.attr), node.attr
