"""A warning for losses of very different sizes, for which all rays mean nearly the same point of the front.

Among 25 even rays of two objectives, a ray's entries differ by a factor of at most 24, so rays cannot compensate for a
larger ratio of losses. This was measured with two losses ``1 - exp(-|x -+ c|^2)``, one of them scaled
(``benchmarks/scales.py``): at a ratio of 100 EPO, Tchebycheff, smooth Tchebycheff, LS and HVMax keep 6 to 17 % of the
hypervolume that they reach at a ratio of 1; at 1,000 all even rays end at one end of the front. A loss that starts near
its minimum, such as a gap between groups, may begin a thousand times smaller than another one and then grow. So the
warning comes at a ratio of 10,000. Losses with bounds are not compared: their size is known.
"""

from __future__ import annotations

import warnings

from torch import Tensor

from hyperfront.solvers import Average, Solver
from hyperfront.solvers.chain import Chain

RATIO = 1e4


FIX = "pass a typical size of each, supervised(..., scale={{{sizes}}})"


def warn_of_scales(
    losses: Tensor, objectives: tuple[str, ...], solver: Solver | None, fix: str = FIX, *, stacklevel: int = 6
) -> None:
    """Warn if the first losses ``[R, m]`` differ by more than :data:`RATIO`, unless a chain normalizes them."""
    if isinstance(solver, Chain) and any(not isinstance(transform, Average) for transform in solver.before):
        return
    sizes = {name: size for name, size in zip(objectives, losses.double().abs().mean(0).tolist()) if size > 0}
    if not sizes or max(sizes.values()) <= RATIO * min(sizes.values()):
        return
    found = ", ".join(f"{name} {size:.1e}" for name, size in sizes.items())
    typical = ", ".join(f"{name!r}: {size:.0e}" for name, size in sizes.items())
    warnings.warn(
        f"the objectives start at very different sizes ({found}), so that all rays would lead to one end of the front: "
        + fix.format(sizes=typical),
        stacklevel=stacklevel,
    )
