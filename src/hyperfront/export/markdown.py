"""Pieces of Markdown for model cards, with words from checkpoints escaped."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from hyperfront.storage.markdown import as_markdown


def bullets(lines: Iterable[str]) -> str:
    return "\n".join(f"- {line}" for line in lines)


def table(header: Iterable[str], rows: Iterable[Sequence[str]]) -> str:
    """A table, or nothing if it has no rows."""
    rows = list(rows)
    return as_markdown(list(header), rows) if rows else ""


def between(ends: Sequence[Any]) -> str:
    """The two ends of a range, or one number if they are equal."""
    return " to ".join(dict.fromkeys(number(end.item()) for end in ends))


def number(value: float) -> str:
    return f"{value:.4g}"


def escaped(value: Any) -> str:
    """Escape words for Markdown, in one line, so that no table, link, code or HTML can begin in them.

    >>> escaped("a|b <script>")
    'a\\\\|b &lt;script&gt;'
    """
    line = " ".join(str(value).split()).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return "".join(f"\\{c}" if c in "\\`*[]|#" else c for c in line)
