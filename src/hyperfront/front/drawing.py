"""The picture of a front whose axes are chosen: losses and scores against each other, beside other points."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from hyperfront.errors import ProblemError
from hyperfront.front import beside as others
from hyperfront.front import plots
from hyperfront.front.plots.measures import clouds

if TYPE_CHECKING:
    from hyperfront.front.front import Front


def measures(front: Front, kind: str, axes: Sequence[str | None], beside: Any, interactive: bool) -> Any:
    """Draw losses and scores against each other; by default the first two losses."""
    if kind != "auto":
        raise ProblemError("a plot of named losses or scores has no kind", got=f"kind={kind!r}", fix="leave it out")
    known = front.columns()
    names = [*front.objectives[:2]] if axes == [None, None] else [name for name in axes if name is not None]
    if len(names) < len(axes) or len({*names}) < len(names):
        raise ProblemError(
            "a plot needs two or three different losses or scores",
            got=", ".join(f"{axis}={name!r}" for axis, name in zip("xyz", axes)),
            expected="x and y of " + ", ".join(known),
        )
    found = clouds(names, front.meanings, known, front.rays, others.named(beside, [*known]))
    if interactive:
        from hyperfront.front.plots.measures.interactive import draw
    else:
        from hyperfront.front.plots.measures.static import draw
    return draw(found, [front.meanings[name].directed for name in names], plots.headline(front, "2d"))
