"""Repairs of the files of a run; each returns what it did. :mod:`hyperfront.training.examination` says when."""

from __future__ import annotations

import json
from contextlib import suppress
from pathlib import Path
from typing import Any

from torch import Tensor

from hyperfront.storage import checkpoint, files
from hyperfront.training.runs import read_records


def set_aside(file: Path) -> str:
    kept = file.replace(file.with_name("damaged" + file.suffix if file.stem == "last" else f"damaged-{file.name}"))
    return f"moved to {kept.name}"


def copy(source: Path, file: Path, after: str) -> str:
    """Put a copy of a sound checkpoint in the place of ``file``; ``after`` says what the training had done by then."""
    moved = f"{set_aside(file)}; " if file.exists() else ""
    files.write_bytes(file, source.read_bytes())
    return f"{moved}now a copy of {source.name}, after {after}"


def write_best(file: Path, weights: dict[str, Tensor], document: dict[str, Any]) -> str:
    checkpoint.write(file, weights, document)
    return "written again from the copy of the best weights in the newest checkpoint"


def write_log(file: Path) -> str:
    records = read_records(file)
    files.write_bytes(file, "".join(json.dumps(record) + "\n" for record in records).encode())
    return f"written again with its {len(records)} sound lines"


def remove(found: list[Path]) -> str:
    for file in found:
        with suppress(FileNotFoundError):
            file.unlink()
    return "removed"
