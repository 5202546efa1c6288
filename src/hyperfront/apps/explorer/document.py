"""The JSON document that the page starts with."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from typing import Any

import torch

from hyperfront.apps.explorer import dense
from hyperfront.apps.explorer.baselines import Baseline
from hyperfront.apps.explorer.session import Session
from hyperfront.front import Front, plots
from hyperfront.problem.samples.inputs import rounded
from hyperfront.storage import files

MAILABLE, FEWEST = 3 * 2**20, 12
"""Largest size in bytes of the predictions in a static page, and the smallest number of rays with predictions."""
SURE = 12
"""Number of rays with intervals in a static page."""
FRAMES = 60
"""Number of epochs in the evolution of the front."""


def document(
    session: Session,
    *,
    name: str,
    python: str,
    baselines: Sequence[Baseline] = (),
    title: str = "",
    notes: str = "",
) -> dict[str, Any]:
    """Make the document of a live page. ``python`` is the expression that loads the model; ``title`` and ``notes`` are
    for readers."""
    front, m = session.front, session.model.m
    known = [(key, front.provenance.get(key)) for key in ("solver", "seed")]
    return {
        "live": True,
        "name": name,
        "title": title,
        "notes": [part.strip() for part in notes.split("\n\n") if part.strip()],
        "problem": front.provenance.get("problem"),
        "facts": [f"{key} {value}" for key, value in known if value is not None],
        "data": {"val": "validation data", "train": "training data"}[session.split.name]
        if session.problem.has_data
        else None,
        "objectives": list(front.objectives),
        "scores": list(front.scores),
        "meanings": {name: session.problem.meaning(name).document() for name in front.columns()},
        "convention": front.convention,
        "reference": None if front.reference is None else list(front.reference),
        "front": measured(front),
        "wanted": len(front) + len(dense.missing(front)),
        "truth": _truth(front),
        "baselines": [{"name": baseline.name, **measured(baseline.front)} for baseline in baselines],
        "evolution": _evolution(session, m),
        "calibration": session.calibration,
        "chosen": _chosen(session),
        "samples": session.samples.document(),
        "python": python,
    }


def static(session: Session, **words: Any) -> dict[str, Any]:
    """Make the document of a static page, with predictions at the rays of the front, or at as many as fit."""
    corner = torch.eye(session.model.m, dtype=torch.float64)[:1]
    rays = torch.cat([corner, dense.coarse_to_fine(session.front.rays, corner)])
    most = max(FEWEST, MAILABLE // len(json.dumps(session.predict(corner))))
    sampled = [{"ray": _digits(ray), "predictions": session.predict(ray)} for ray in rays[:most]]
    chosen = _chosen(session)
    known = rays[:SURE] if chosen is None else [*rays[: SURE - 1], torch.tensor(chosen["ray"], dtype=torch.float64)]
    sure = [{"ray": _digits(ray), **session.uncertainty(ray, exact_gaps=False)} for ray in known]
    return {**document(session, **words), "live": False, "sampled": sampled, "sure": sure}


def _chosen(session: Session) -> dict[str, Any] | None:
    """The trade-off that training chose, if it was asked to and has all measures of the front."""
    file = session.folder.choice if session.folder else None
    found = files.read_json(file) if file is not None and file.exists() else None
    fits = isinstance(found, dict) and {*found.get("values", {})} == {*session.front.columns()}
    return found if fits else None


def measured(front: Front) -> dict[str, Any]:
    """The points of a front."""
    return {
        "rays": _digits(front.rays),
        "losses": _digits(front.losses),
        "scores": {name: _digits(values) for name, values in front.scores.items()},
    }


def _truth(front: Front) -> list[list[list[float]]]:
    """The true front: connected curves for two objectives, otherwise one cloud of points."""
    if front.truth is None:
        return []
    parts = plots.curves(front.truth.numpy()) if len(front.objectives) == 2 else [front.truth]
    return [rounded(torch.as_tensor(part)) for part in parts]


def _evolution(session: Session, m: int) -> list[dict[str, Any]]:
    """The validated epochs of the run, evenly thinned to :data:`FRAMES`."""
    records = [r for r in (session.folder.records() if session.folder else []) if r.get("validation")]
    chosen = plots.evenly_spaced(records, FRAMES) if records else []
    return [
        {
            "epoch": record["epoch"],
            "losses": _digits(torch.tensor(record["validation"]["losses"], dtype=torch.float64).view(-1, m)),
            "hypervolume": record["validation"]["hypervolume"],
        }
        for record in chosen
    ]


def _digits(values: torch.Tensor) -> Any:
    """Round to nine significant digits, which restore a ray exactly. Numbers that are not finite become null."""
    if values.ndim > 1:
        return [_digits(row) for row in values]
    return [float(f"{value:.9g}") if math.isfinite(value) else None for value in values.tolist()]
