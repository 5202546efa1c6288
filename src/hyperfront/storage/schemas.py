"""Schema numbers of file formats: older files are upgraded when they are read.

Every format is a :class:`Format` of its own, with its own steps and so its own number, which its files state. A file
from a newer version is refused.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from hyperfront.errors import CheckpointError

Document = dict[str, Any]
SPELLING = {"initialisation": "initialization", "maximise": "maximize"}
"""Keys that schema 1 of several formats spelled differently."""


@dataclass(frozen=True)
class Format:
    """A file format; ``steps[k]`` converts a document of schema ``k + 1`` to schema ``k + 2``.

    >>> Format("plan", (respell,)).upgrade({"format": "plan", "schema": 1, "maximise": True})
    {'format': 'plan', 'schema': 2, 'maximize': True}
    """

    name: str
    steps: tuple[Callable[[Document], Document], ...] = ()

    @property
    def schema(self) -> int:
        """The current schema number."""
        return len(self.steps) + 1

    def stamp(self, document: Mapping[str, Any]) -> Document:
        """A document to write, with its format and the current schema."""
        return {"format": self.name, "schema": self.schema, **document}

    def upgrade(self, document: Document, path: object = "") -> Document:
        """Upgrade a document to the current schema; ``path`` names the file in the error message.

        Raises a ``KeyError`` for a document of another format.
        """
        if document["format"] != self.name:
            raise KeyError("format")
        found = document.get("schema")
        if not isinstance(found, int) or isinstance(found, bool) or not 1 <= found <= self.schema:
            raise CheckpointError(
                "this version cannot read the schema of the file",
                got=f"{path}: schema {found}",
                expected=f"1 to {self.schema}",
                fix="use the version of hyperfront that wrote it",
            )
        try:
            for step in self.steps[found - 1 :]:
                document = step(document)
        except RecursionError:
            raise CheckpointError("the document is nested too deeply", got=path) from None
        return document | {"schema": self.schema}


def respell(document: Any) -> Any:
    """Rename the keys of :data:`SPELLING` in a document, at any depth."""
    if isinstance(document, Mapping):
        return {SPELLING.get(key, key): respell(value) for key, value in document.items()}
    return [respell(value) for value in document] if isinstance(document, list) else document
