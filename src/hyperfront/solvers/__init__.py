"""Solvers: one file per method, all with the contract of :mod:`hyperfront.solvers.base`."""

from hyperfront.solvers.base import Solver, Status
from hyperfront.solvers.epo import EPO
from hyperfront.solvers.lift import lift
from hyperfront.solvers.ls import LS

__all__ = ["EPO", "LS", "Solver", "Status", "lift"]
