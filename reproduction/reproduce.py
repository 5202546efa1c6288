"""Make one item and write its files.

::

    OUT/PRESET/ITEM/data.json          numbers, tables, claims, environments, command
    OUT/PRESET/ITEM/table.md           tables, claims and differences from the paper
    OUT/PRESET/ITEM/figure.png, .svg   if the item has a figure
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from hyperfront.front import plots
from hyperfront.storage import files
from hyperfront.storage.markdown import as_markdown
from reproduction.item_result import ItemResult
from reproduction.items import ITEMS
from reproduction.paper import deviations_of
from reproduction.store import Store

SCHEMA = 2
"""The schema of ``data.json``; 1 differs in the names of some numbers."""


def reproduce(name: str, store: Store) -> tuple[ItemResult, Path]:
    """The result of an item, and the folder with its files."""
    item, folder = ITEMS[name], store.out / store.preset / name
    found = item.make(store)
    document = {
        "format": "hyperfront-item",
        "schema": SCHEMA,
        "item": name,
        "what": item.what,
        "preset": store.preset,
        "command": _command(name, store, found),
        "differences": {each: str(deviation) for each, deviation in deviations_of(name).items()},
        **{key: value for key, value in asdict(replace(found, figure=None)).items() if key != "figure"},
    }
    files.write_json(folder / "data.json", document)
    files.write_bytes(folder / "table.md", markdown(document, found).encode())
    if found.figure is not None:
        for suffix in ("png", "svg"):
            plots.save(found.figure, folder / f"figure.{suffix}")
    return found, folder


def markdown(document: Mapping[str, Any], found: ItemResult) -> str:
    """Tables, claims, notes and differences of an item."""
    parts = [f"# {document['item']}: {document['what']}"]
    for table in found.tables:
        parts += [f"**{table.title}**", as_markdown(table.columns, table.rows)]
    claims = [f"- {claim.verdict}: {claim.text}: {claim.numbers}" for claim in found.claims]
    parts += ["\n".join(lines) for lines in (claims, [f"- {note}" for note in found.notes]) if lines]
    if differences := [f"- **{each}**. {text}" for each, text in document["differences"].items()]:
        parts += ["## What differs from the paper", "\n".join(differences)]
    return "\n\n".join(parts) + "\n"


def _command(name: str, store: Store, found: ItemResult) -> str:
    """The command that makes an item in the same way."""
    seeds = "" if store.seeds is None else f" --seeds {store.seeds}"
    rounded = any(environment.get("products") == "high" for environment in found.environments)
    return f"python -m reproduction make {name} --preset {store.preset}{seeds}{' --tf32' if rounded else ''}"
