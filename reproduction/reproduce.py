"""Make one item: run what it needs, and write data, tables, figure and what differs.

::

    OUT/PRESET/ITEM/data.json         numbers, tables, claims, environment, command
    OUT/PRESET/ITEM/table.md          ours beside the paper's
    OUT/PRESET/ITEM/figure.png, .svg
    OUT/PRESET/ITEM/differences.md    what differs from the paper, and why
"""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

from hyperfront import plots
from hyperfront.storage import checkpoint, files
from reproduction.deviations import DEVIATIONS
from reproduction.item_result import Finding
from reproduction.items import Item
from reproduction.store import Workshop


def reproduce(name: str, item: Item, workshop: Workshop) -> tuple[Finding, Path]:
    """What was found, and the folder with the files."""
    finding, folder = item.make(workshop), workshop.out / workshop.preset / name
    everything = replace(workshop, train=False, seeds=None)
    whole = item.make(everything)
    if not whole.missing:  # the item keeps more seeds than were asked for, where they are there
        workshop, finding = everything, whole
    files.write_json(folder / "data.json", document(name, item, workshop, finding))
    warning = "A smoke test: the numbers mean nothing.\n\n" if item.trains and workshop.preset == "smoke" else ""
    text = (replace(finding, claims=[]) if warning else finding).markdown()
    _write(folder / "table.md", f"# {name}: {item.what}\n\n{warning}{text}")
    _write(folder / "differences.md", f"# {name}: what differs from the paper\n\n{differences(item)}")
    if finding.figure is not None:
        for suffix in ("png", "svg"):
            plots.save(finding.figure, folder / f"figure.{suffix}")
    return finding, folder


def document(name: str, item: Item, workshop: Workshop, finding: Finding) -> dict[str, Any]:
    """What ``data.json`` says."""
    return {
        "format": "hyperfront-item",
        "schema": checkpoint.SCHEMA,
        "item": name,
        "what": item.what,
        "preset": workshop.preset,
        "command": command(name, workshop.preset, finding, workshop.seeds),
        "differences": {each: str(DEVIATIONS[each]) for each in item.deviations},
        **finding.document(),
    }


def is_written(name: str, item: Item, workshop: Workshop, finding: Finding) -> bool:
    """Whether the files of an item say what was found."""
    file = workshop.out / workshop.preset / name / "data.json"
    made = json.loads(json.dumps(document(name, item, workshop, finding)))  # as it would be read
    return file.exists() and files.read_json(file) == made


def command(name: str, preset: str, finding: Finding, seeds: int | None = None) -> str:
    """What to type for the same."""
    some = "" if seeds is None else f" --seeds {seeds}"
    rounded = any(environment.get("products") == "high" for environment in finding.environments)
    return f"python -m reproduction make {name} --preset {preset}{some}{' --tf32' if rounded else ''}"


def differences(item: Item) -> str:
    """The departures from the paper that concern an item, as a list."""
    lines = [f"- **{name}**. {DEVIATIONS[name]}" for name in item.deviations]
    return "\n".join(lines or ["Nothing."]) + "\n"


def _write(path: Path, text: str) -> None:
    files.write_bytes(path, text.encode())
