"""Fronts as files: a JSON document with a schema number, which can be read again, and a table as CSV."""

from __future__ import annotations

import csv
import io
import math
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

import torch

from hyperfront.errors import CheckpointError
from hyperfront.preferences import Convention
from hyperfront.problem import Meaning
from hyperfront.storage import files
from hyperfront.storage.schemas import Format

if TYPE_CHECKING:
    from hyperfront.front.front import Front

FORMAT = Format("hyperfront-front", steps=(lambda document: {**document, "meanings": {}},))
"""Schema 2 has the meanings of losses and scores; scores of an older file have no direction."""


def write(front: Front, path: Path) -> None:
    """Write CSV if the name ends with ``.csv``, or else JSON."""
    if path.suffix.lower() == ".csv":
        files.write_bytes(path, _csv(front).encode(errors="backslashreplace"))
        return
    files.write_json(path, document(front))


def document(front: Front) -> dict[str, Any]:
    """The front as a JSON document, as :func:`read` reads it."""
    found = {
        "objectives": list(front.objectives),
        "reference": None if front.reference is None else list(front.reference),
        "convention": front.convention,
        "scores": {name: values.tolist() for name, values in front.scores.items()},
        "meanings": {name: meaning.document() for name, meaning in front.meanings.items()},
        "provenance": dict(front.provenance),
        "rays": front.rays.tolist(),
        "losses": front.losses.tolist(),
        "truth": None if front.truth is None else front.truth.tolist(),
    }
    return FORMAT.stamp(found)


def read(path: Path, make: type[Front]) -> Front:
    """Read a front from the JSON that :func:`write` wrote."""
    document = files.read_json(path)
    try:
        document = FORMAT.upgrade(document, path)
        front = make(
            objectives=tuple(document["objectives"]),
            rays=torch.tensor(document["rays"], dtype=torch.float64),
            losses=torch.tensor(document["losses"], dtype=torch.float64),
            truth=None if document["truth"] is None else torch.tensor(document["truth"], dtype=torch.float64),
            scores={k: torch.tensor(v, dtype=torch.float64) for k, v in document["scores"].items()},
            reference=None if document["reference"] is None else tuple(document["reference"]),
            convention=document["convention"],
            provenance=dict(document["provenance"]),
            meanings={name: Meaning.read(meaning) for name, meaning in document["meanings"].items()},
        )
        _check(front)
        return front
    except (LookupError, TypeError, ValueError, AttributeError, OverflowError, RuntimeError) as error:
        raise CheckpointError("the file does not hold a front", got=f"{path}: {error!r}") from None


def _csv(front: Front) -> str:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow([*(f"ray {name}" for name in front.objectives), *front.objectives, *front.scores])
    table = torch.cat([front.rays, front.losses, *(values[:, None] for values in front.scores.values())], dim=1)
    writer.writerows(table.tolist())
    return text.getvalue()


def _check(front: Front) -> None:
    """Raise an error if no front can have these numbers, for example in an altered file."""
    if (front.rays < 0).any() or ((front.rays.sum(-1) - 1).abs() > 1e-4).any():
        raise ValueError("rays are not non-negative numbers that sum to 1")
    tables = [front.rays, front.losses, *front.scores.values(), *([] if front.truth is None else [front.truth])]
    if not all(table.isfinite().all() for table in tables) or front.convention not in get_args(Convention):
        raise ValueError("a number is not finite, or the convention unknown")
    if not all(math.isfinite(value) for value in front.reference or ()):
        raise ValueError("the reference point is not finite")
