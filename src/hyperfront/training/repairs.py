"""Repairs of the files of a run; each returns its description. :mod:`hyperfront.training.examination` chooses them."""

from __future__ import annotations

import json
from contextlib import suppress
from pathlib import Path
from typing import Any

from torch import Tensor

from hyperfront.storage import checkpoint, files
from hyperfront.training.runs import read_records


def set_aside(file: Path) -> str:
    return f"moved to {file.replace(_aside(file)).name}"


def _aside(file: Path) -> Path:
    return file.with_name("damaged" + file.suffix if file.stem == "last" else f"damaged-{file.name}")


def _kept(file: Path) -> str:
    """Give a file that is about to be replaced a second name, and say so."""
    if not file.exists():
        return ""
    files.link(file, _aside(file))
    return f"kept as {_aside(file).name}; "


def copy(source: Path, file: Path, after: str) -> str:
    """Put a copy of a sound checkpoint in the place of ``file``; ``after`` says how far it had trained."""
    kept = _kept(file)
    files.copy(source, file)
    return f"{kept}now a copy of {source.name}, after {after}"


def write_best(file: Path, weights: dict[str, Tensor], document: dict[str, Any]) -> str:
    kept = _kept(file)
    checkpoint.write(file, weights, document)
    return f"{kept}written again from the copy of the best weights in the newest checkpoint"


def write_log(file: Path) -> str:
    records, kept = read_records(file), _kept(file)
    files.write_bytes(file, "".join(json.dumps(record) + "\n" for record in records).encode())
    return f"{kept}written again with its {len(records)} sound lines"


def remove(found: list[Path]) -> str:
    for file in found:
        with suppress(FileNotFoundError):
            file.unlink()
    return "removed"
