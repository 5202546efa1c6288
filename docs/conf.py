"""Settings of the documentation site: Sphinx with MyST and Furo. ``make docs`` builds it, without the internet."""

from __future__ import annotations

from typing import Any

import hyperfront

project = author = "hyperfront"
version = release = hyperfront.__version__
extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
exclude_patterns = ["seen"]
myst_heading_anchors = 4
autodoc_typehints = "signature"
autodoc_inherit_docstrings = False  # other packages' texts refer to their own pages
autodoc_member_order = "bysource"
autodoc_preserve_defaults = True
autodoc_default_options = {"members": True}
python_use_unqualified_type_names = True
highlight_language = "none"  # of formulas; other blocks name theirs
maximum_signature_line_length = 90
html_theme = "furo"
html_static_path, html_css_files = ["_static"], ["site.css"]
html_title = "hyperfront"
html_show_sphinx = html_show_copyright = html_copy_source = False

PAGES = {"(../SECURITY.md)": "(security.md)", "(../CHANGELOG.md)": "(changelog.md)"}
"""Links to files beside ``docs/`` that are pages of the site, too."""


def link_pages(app: Any, name: str, source: list[str]) -> None:
    """Turn links that work in the repository into links between pages."""
    for file, page in PAGES.items():
        source[0] = source[0].replace(file, page)


def show_formulas(app: Any, kind: str, name: str, value: Any, options: Any, lines: list[str]) -> None:
    """Show indented lines below a paragraph of a docstring, which are formulas, as they are."""
    for number, (line, empty, below) in enumerate(zip(lines, lines[1:], lines[2:])):
        if line and not line.startswith((" ", ".", ">")) and not empty and below.startswith("    "):
            lines[number] = line.removesuffix("::").removesuffix(":") + (" ::" if line[-1] != ":" else "::")


def setup(app: Any) -> None:
    """Connect the site's own steps to Sphinx."""
    app.connect("source-read", link_pages)
    app.connect("autodoc-process-docstring", show_formulas, priority=900)  # after Napoleon
