"""Settings that train a table well, by its number of training rows; ``docs/tables.md`` has the measurements."""

from __future__ import annotations

from typing import Any

from hyperfront.errors import check_number
from hyperfront.errors.signatures import checked
from hyperfront.problem.recipe import Recipe
from hyperfront.solvers import LS, Solver

EPOCHS = 100
"""Passes over the rows, if :data:`FEWEST` and :data:`MOST` allow them: more passes learn the rows by heart."""
FEWEST, MOST = 200, 3000
"""The fewest and the most training steps."""
VALIDATIONS = 20
"""Validations of a run, which choose its weights."""
SOLVER: Solver = LS()
"""Linear scalarization: a gap may be zero on the whole front, where no ray has equal products ``r_j l_j`` (EPO)."""
MODEL: dict[str, Any] = {"hidden": 25, "generate": "layers.*"}
"""Embeddings are trained directly: generated ones learn rare categories by heart, for each ray."""


@checked
def recipe_for(rows: int, *, steps: int | None = None) -> Recipe:
    """The recipe for a table with this many training rows; ``steps`` sets the number of training steps."""
    check_number("the number of rows", rows, 1, whole=True)
    if steps is not None:
        check_number("the number of steps", steps, 1, whole=True)
    rays = 4 if rows >= 256 else 1
    batch = min(rows, 1024) // rays * rays
    each = rows // batch
    if steps is None:
        steps = min(max(EPOCHS * each, FEWEST), MOST)
    epochs = max(1, round(steps / each))
    return Recipe(
        epochs=epochs,
        rays_per_step=rays,
        batch_size=batch,
        lr=2e-3,
        warmup=min(50, steps // 10),
        alpha=1.0,
        evaluation_rays=66,
        validate_every=max(1, epochs // VALIDATIONS),
        model=MODEL,
    )
