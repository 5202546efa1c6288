"""Tables for documents."""

from __future__ import annotations

from collections.abc import Iterable, Sequence


def as_markdown(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table for a document.

    >>> print(as_markdown(["method", "HV"], [["ls", "0.3"]]))
    | method | HV |
    | --- | --- |
    | ls | 0.3 |
    """
    return "\n".join("| " + " | ".join(row) + " |" for row in [columns, ["---"] * len(columns), *rows])
