"""Every table and figure of the paper: declared in ``items.toml``, made from a store, and written to files.

::

    OUT/PRESET/ITEM/data.json          numbers, tables, environments, command
    OUT/PRESET/ITEM/table.md           tables, notes and differences from the paper
    OUT/PRESET/ITEM/figure.png, .svg   if the item has a figure
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from pkgutil import resolve_name
from typing import Any

from hyperfront.front import plots
from hyperfront.storage import files
from hyperfront.storage.markdown import as_markdown
from hyperfront.storage.schemas import Format
from reproduction.item_result import ItemResult
from reproduction.paper import declared, deviations_of
from reproduction.store import Store

FORMAT = Format("hyperfront-item", steps=(dict, lambda document: {"expected": "", **document}))
"""The format of ``data.json``: schema 3 has the statement that is ``expected``, where 2 had a list of claims."""


@dataclass(frozen=True)
class Item:
    """A table or figure of the paper."""

    what: str
    """The content of the item, in our words."""
    build: str
    """The function of this package that makes it from the store and the ``arguments``, as ``module:function``."""
    arguments: Mapping[str, Any] = field(default_factory=dict)
    expected: str = ""
    """What the paper says about it, or what should be seen."""
    notes: Sequence[str] = ()

    def make(self, store: Store) -> ItemResult:
        """Make the result from the store, which trains missing parts."""
        store = replace(store, environments=[])
        found = resolve_name(f"reproduction.{self.build}")(store, **self.arguments)
        found.environments = [e for i, e in enumerate(store.environments) if e not in store.environments[:i]]
        smoke = ["This is a smoke test: numbers from training mean nothing."] if store.preset == "smoke" else []
        found.notes = [*smoke, *self.notes]
        return found


ITEMS = {name: Item(**fields) for name, fields in declared("items")["items"].items()}


def reproduce(name: str, store: Store) -> tuple[ItemResult, Path]:
    """The result of an item, and the folder with its files."""
    found, folder = ITEMS[name].make(store), store.out / store.preset / name
    document = document_of(name, store, found)
    files.write_json(folder / "data.json", document)
    files.write_bytes(folder / "table.md", markdown(document).encode())
    if found.figure is not None:
        for suffix in ("png", "svg"):
            plots.save(found.figure, folder / f"figure.{suffix}")
    return found, folder


def document_of(name: str, store: Store, found: ItemResult) -> dict[str, Any]:
    """The contents of ``data.json``."""
    rounded = any(environment.get("products") == "high" for environment in found.environments)
    document = {
        "item": name,
        "what": ITEMS[name].what,
        "expected": ITEMS[name].expected,
        "preset": store.preset,
        "command": f"python -m reproduction make {name} --preset {store.preset}{' --tf32' if rounded else ''}",
        "differences": {each: str(deviation) for each, deviation in deviations_of(name).items()},
        **{key: value for key, value in asdict(replace(found, figure=None)).items() if key != "figure"},
    }
    return FORMAT.stamp(document)


def markdown(document: Mapping[str, Any]) -> str:
    """Tables, notes and differences of an item."""
    parts = [f"# {document['item']}: {document['what']}"]
    parts += [f"Expected: {document['expected']}."] if document["expected"] else []
    for table in document["tables"]:
        parts += [f"**{table['title']}**", as_markdown(table["columns"], table["rows"])]
    parts += ["\n".join(f"- {note}" for note in document["notes"])] if document["notes"] else []
    if differences := [f"- **{each}**. {text}" for each, text in document["differences"].items()]:
        parts += ["## What differs from the paper", "\n".join(differences)]
    return "\n\n".join(parts) + "\n"
