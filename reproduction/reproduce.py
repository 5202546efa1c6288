"""Make one item and write its files.

::

    OUT/PRESET/ITEM/data.json          numbers, tables, claims, environments, command
    OUT/PRESET/ITEM/table.md           tables, claims and differences from the paper
    OUT/PRESET/ITEM/figure.png, .svg   if the item has a figure
"""

from __future__ import annotations

from pathlib import Path

from hyperfront import plots
from hyperfront.storage import checkpoint, files
from hyperfront.storage.markdown import as_markdown
from reproduction.deviations import deviations_of
from reproduction.item_result import ItemResult
from reproduction.items import ITEMS, Item
from reproduction.store import Store


def reproduce(name: str, store: Store) -> tuple[ItemResult, Path]:
    """The result of an item, and the folder with its files."""
    item, folder = ITEMS[name], store.out / store.preset / name
    found = item.make(store)
    document = {
        "format": "hyperfront-item",
        "schema": checkpoint.SCHEMA,
        "item": name,
        "what": item.what,
        "preset": store.preset,
        "command": command(name, store.preset, found, store.seeds),
        "differences": {each: str(deviation) for each, deviation in deviations_of(name).items()},
        **found.document(),
    }
    files.write_json(folder / "data.json", document)
    smoke = item.trains and store.preset == "smoke"
    files.write_bytes(folder / "table.md", markdown(name, item, found, smoke=smoke).encode())
    if found.figure is not None:
        for suffix in ("png", "svg"):
            plots.save(found.figure, folder / f"figure.{suffix}")
    return found, folder


def markdown(name: str, item: Item, found: ItemResult, *, smoke: bool) -> str:
    """Tables, claims, notes and differences of an item."""
    parts = [f"# {name}: {item.what}", *["This is a smoke test: its numbers mean nothing."] * smoke]
    for table in found.tables:
        parts += [f"**{table.title}**", as_markdown(table.columns, table.rows)]
    claims = [] if smoke else [f"- {claim.verdict}: {claim.text}: {claim.numbers}" for claim in found.claims]
    missing = [f"- Missing: {', '.join(found.missing)}"] if found.missing else []
    differences = [f"- **{each}**. {deviation}" for each, deviation in deviations_of(name).items()]
    lists = [claims, [f"- {note}" for note in found.notes] + missing]
    parts += ["\n".join(lines) for lines in lists if lines]
    parts += ["## What differs from the paper", "\n".join(differences)] if differences else []
    return "\n\n".join(parts) + "\n"


def command(name: str, preset: str, found: ItemResult, seeds: int | None = None) -> str:
    """The command that makes an item in the same way."""
    some = "" if seeds is None else f" --seeds {seeds}"
    rounded = any(environment.get("products") == "high" for environment in found.environments)
    return f"python -m reproduction make {name} --preset {preset}{some}{' --tf32' if rounded else ''}"
