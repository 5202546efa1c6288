"""Display of a run in a notebook: its model, its best hypervolume and its front."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from hyperfront.front import notebook
from hyperfront.storage import markup
from hyperfront.storage.markup import Markup, number, shorten

if TYPE_CHECKING:
    from hyperfront.training.runs import Run

SOLVED = {
    "as_named": "exactly",
    "relaxed": "after dropping a constraint that could not be met",
    "min_norm": "by min-norm weights instead",
    "floored": "with a loss of zero raised to a small number",
    "invalid": "not at all: a loss was NaN, infinite or negative",
}
LOSSES = 8
"""The number of losses in the list."""


def html(run: Run) -> Markup:
    """Show the model, the best hypervolume, the statuses of the rays, and the front."""
    record, history = run.model.record, run.history
    names = [shorten(name, 24) for name in run.model.objectives]
    shown = {"model": shorten(type(run.model.target.skeleton).__name__), "objectives": shorten(", ".join(names), 120)}
    shown |= {key: shorten(record[key]) for key in ("problem", "solver", "seed") if record.get(key) is not None}
    if history:
        losses = list(history[-1]["losses"].items())
        last = ", ".join(f"{shorten(name, 24)} {number(value)}" for name, value in losses[:LOSSES])
        shown["training losses at the end"] = last + ", …" * (len(losses) > LOSSES)
        shown |= _best(run)
        solved = (f"{count:,} {SOLVED.get(name, name)}" for name, count in run.status.items())
        shown["rays solved"] = "; ".join(solved)
    if run.folder:
        shown["folder"] = shorten(run.folder.path, 80)
    epochs = f"{len(history):,} epoch{'s' * (len(history) != 1)}"
    if run.front is None:
        front = markup.note("There are no validation data, so there is no front.")
    else:  # the facts above show the rest of the front's provenance
        split = {key: value for key, value in run.front.provenance.items() if key == "split"}
        front = notebook.html(replace(run.front, provenance=split))
    return markup.block(f"Run of {epochs}", markup.facts(shown), front)


def _best(run: Run) -> dict[str, str]:
    """Find the best hypervolume of the validations, and its epoch."""
    volumes = [(record["epoch"], (record.get("validation") or {}).get("hypervolume")) for record in run.history]
    found = [(volume, epoch) for epoch, volume in volumes if volume is not None]
    if not found:
        return {}
    volume, epoch = max(found, key=lambda pair: pair[0])
    return {"best hypervolume": f"{number(volume)}, in epoch {epoch:,}"}
