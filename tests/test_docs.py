"""The documents: what they name and link to exists, and the site has every page and every public name."""

from __future__ import annotations

import ast
import importlib
import inspect
import re
from pathlib import Path
from types import ModuleType

import pytest

import hyperfront as hf

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
PAGES = sorted(path for path in DOCS.rglob("*.md") if "seen" not in path.parts)
DOCUMENTS = [*(ROOT / f"{name}.md" for name in ("README", "CONTRIBUTING", "SECURITY")), *PAGES]
INNER = {"storage", "kernels", "zoo", "apps"}
"""Rooms of the package without public names."""
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


# ---- the reference ---------------------------------------------------------------------------------------------------


def public(module: ModuleType) -> set[str]:
    """The public names of a module."""
    own = {name for name, value in vars(module).items() if getattr(value, "__module__", "") == module.__name__}
    return set(getattr(module, "__all__", ())) or {name for name in own if not name.startswith("_")}


def referenced() -> list[object]:
    """Everything that a page of the reference documents."""
    found: list[object] = []
    for page in (DOCS / "reference").glob("*.rst"):
        for kind, name, options in re.findall(r"^\.\. auto(\w+):: (\S+)\n((?:   :.*\n)*)", page.read_text(), re.M):
            if kind == "module":
                module = importlib.import_module(name)
                excluded = set(re.findall(r"\w+", "".join(re.findall(r":exclude-members:(.*)", options))))
                members = set() if ":no-members:" in options else public(module) - excluded
                found += [module, *(getattr(module, member) for member in members)]
            else:
                module, _, member = name.rpartition(".")
                found.append(getattr(importlib.import_module(module), member))
    return found


def test_the_reference_has_every_public_name():
    entries = [path for path in (ROOT / "src" / "hyperfront").iterdir() if path.suffix in ("", ".py")]
    rooms = {path.stem for path in entries if not path.name.startswith("_")} - INNER
    known = {id(each) for each in referenced()}
    missing = []
    for name in ["hyperfront", *(f"hyperfront.{room}" for room in sorted(rooms))]:
        module = importlib.import_module(name)
        missing += [f"{name}.{each}" for each in public(module) if id(getattr(module, each)) not in known]
    assert not missing


def test_every_public_name_has_a_docstring():
    explained = [each for each in referenced() if inspect.isclass(each) or inspect.isroutine(each)]
    assert len(explained) > 100 and all((each.__doc__ or "").strip() for each in explained)


# ---- pages and links -------------------------------------------------------------------------------------------------


def anchors(text: str) -> set[str]:
    """The anchors of the headings of a page, as GitHub and the site name them."""
    headings = re.findall(r"^#+ (.*)", re.sub(r"^```.*?^```", "", text, flags=re.DOTALL | re.MULTILINE), re.M)
    return {re.sub(r"[^\w -]", "", heading.lower()).strip().replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_links_between_pages_lead_somewhere(document):
    for file, anchor in re.findall(r"\]\((?!https?:)([^)#\s]*)#?([^)]*)\)", document.read_text()):
        target = document.parent / file if file else document
        assert target.exists(), file
        assert not anchor or anchor in anchors(target.read_text()), f"{file}#{anchor}"


def test_every_page_is_in_the_navigation():
    entries = re.findall(r"^```\{toctree\}\n(.*?)^```", (DOCS / "index.md").read_text(), flags=re.DOTALL | re.MULTILINE)
    listed = {line for entry in entries for line in entry.split("\n") if line and not line.startswith(":")}
    pages = [*PAGES, *(DOCS / "reference").glob("*.rst")]
    assert listed == {str(page.relative_to(DOCS).with_suffix("")) for page in pages} - {"index"}
