"""Rays: preferences between objectives, and functions that draw, lay out, check and convert them.

A *ray* ``r`` is a point of the simplex: ``m`` non-negative numbers that sum to 1. ``R`` rays are a tensor ``[R, m]``.
:mod:`~hyperfront.preferences.conventions` says what a ray means to which solver.
"""

from hyperfront.preferences.checking import as_tuples, layout, validate
from hyperfront.preferences.conventions import Convention, convert, through
from hyperfront.preferences.grids import das_dennis, interpolation, nearest, rays, shifted_grid
from hyperfront.preferences.sampling import Dirichlet, FixedRays, InTurn, Preferences, uniform

__all__ = [
    "Convention",
    "Dirichlet",
    "FixedRays",
    "InTurn",
    "Preferences",
    "as_tuples",
    "convert",
    "das_dennis",
    "interpolation",
    "layout",
    "nearest",
    "rays",
    "shifted_grid",
    "through",
    "uniform",
    "validate",
]
