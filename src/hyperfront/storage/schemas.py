"""Schema numbers of file formats: older files are upgraded when they are read.

Every format has its own number, which the file states. :func:`upgrade` applies one function for each step from the
file's number to the current one. A file from a newer version is refused.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from hyperfront.errors import CheckpointError

SPELLING = {"initialisation": "initialization", "maximise": "maximize"}
"""Keys that schema 1 of several formats spelled differently."""


def upgrade(
    document: dict[str, Any], steps: Sequence[Callable[[dict[str, Any]], dict[str, Any]]], path: object = ""
) -> dict[str, Any]:
    """Upgrade a document to the current schema, ``len(steps) + 1``; ``steps[k]`` leads from schema ``k + 1`` to
    ``k + 2``. ``path`` names the file in the error message.

    >>> upgrade({"schema": 1, "maximise": True}, [respell])
    {'schema': 2, 'maximize': True}
    """
    found, newest = document.get("schema"), len(steps) + 1
    if not isinstance(found, int) or isinstance(found, bool) or not 1 <= found <= newest:
        raise CheckpointError(
            "this version cannot read the schema of the file",
            got=f"{path}: schema {found}",
            expected=f"1 to {newest}",
            fix="use the version of hyperfront that wrote it",
        )
    for step in steps[found - 1 :]:
        document = step(document)
    return document | {"schema": newest}


def respell(document: Any) -> Any:
    """Rename the keys of :data:`SPELLING` in a document, at any depth."""
    if isinstance(document, Mapping):
        return {SPELLING.get(key, key): respell(value) for key, value in document.items()}
    return [respell(value) for value in document] if isinstance(document, list) else document
