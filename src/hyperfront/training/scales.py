"""Losses of very different sizes: rays cannot tell where between the objectives they are.

A ray's entries differ by a factor of 24 at most among 25 even rays of two objectives, so rays can compensate no more
than that. Measured with two losses ``1 - exp(-|x -+ c|^2)``, one of them scaled: at a ratio of 100 EPO, Tchebycheff,
smooth Tchebycheff, LS and HVMax keep 6 to 17 % of the hypervolume that they reach at 1, and at 1,000 all even rays end
at one end of the front (``benchmarks/scales.py``). A loss that starts near its minimum, such as a gap between groups,
may begin a thousand times smaller than another one and grow, so the warning comes at 10,000.
"""

from __future__ import annotations

import warnings

from torch import Tensor

from hyperfront.solvers import Average, Solver
from hyperfront.solvers.chain import Chain

RATIO = 1e4


def warn_of_scales(losses: Tensor, objectives: tuple[str, ...], solver: Solver) -> None:
    """Warn if the first losses ``[R, m]`` differ by more than :data:`RATIO`, unless a chain normalizes them."""
    if isinstance(solver, Chain) and any(not isinstance(transform, Average) for transform in solver.before):
        return
    sizes = {name: size for name, size in zip(objectives, losses.double().abs().mean(0).tolist()) if size > 0}
    if not sizes or max(sizes.values()) <= RATIO * min(sizes.values()):
        return
    found = ", ".join(f"{name} {size:.1e}" for name, size in sizes.items())
    scale = ", ".join(f"{name!r}: {size:.0e}" for name, size in sizes.items())
    warnings.warn(
        f"the objectives start at very different sizes ({found}), so that rays would all mean one end of the front: "
        f"pass a typical size of each, supervised(..., scale={{{scale}}})",
        stacklevel=6,
    )
