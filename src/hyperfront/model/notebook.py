"""Display of a model in a notebook: its generated, trained and frozen tensors."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hyperfront.model.roles import TensorSpec
from hyperfront.model.summary import counts, title
from hyperfront.storage import markup
from hyperfront.storage.markup import Markup, shorten

if TYPE_CHECKING:
    from hyperfront.model.pareto_model import ParetoModel

TENSORS = 40
"""The number of tensors in the list."""


def html(model: ParetoModel) -> Markup:
    """Show the summary, and below it the first tensors of the module."""
    rows = [[what, f"{count:,}", text] for what, count, text in counts(model)]
    made, tensors = set(model.target.assembly.names), model.target.tensors
    head = [[shorten(spec.name), _values(spec, made), str(list(spec.shape)), spec.dtype] for spec in tensors[:TENSORS]]
    listed = markup.table(["tensor", "values", "shape", "type"], head, words=range(4))
    if len(tensors) > TENSORS:
        listed = Markup(listed + markup.note(f"{TENSORS} of {len(tensors):,} tensors"))
    summary = markup.table(["", "count", ""], rows, words=(0, 2))
    folded = markup.folded(f"{len(tensors):,} tensors of the module", listed)
    return markup.block(shorten(title(model), 120), summary, folded)


def _values(spec: TensorSpec, made: set[str]) -> str:
    """Name the source of a tensor's values."""
    if spec.name in made:
        return "generated" if spec.role == "generated" else f"generated on a {spec.role} base"
    return spec.role
