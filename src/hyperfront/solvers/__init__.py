"""Solvers: one file per method, all with the contract of :mod:`hyperfront.solvers.base`.

:func:`chain` puts transforms around one: :class:`Normalize`, :class:`NormalizeByStart` and :class:`Average` of the
losses before it, :class:`Clip` of the weights after it.
"""

from hyperfront.solvers.average import Average
from hyperfront.solvers.base import Solver, Status
from hyperfront.solvers.chain import Stateful, chain
from hyperfront.solvers.clip import Clip
from hyperfront.solvers.cosmos import COSMOS
from hyperfront.solvers.epo import EPO
from hyperfront.solvers.hvmax import HVMax
from hyperfront.solvers.lift import lift
from hyperfront.solvers.ls import LS
from hyperfront.solvers.mgda import MGDA
from hyperfront.solvers.normalize import Normalize, NormalizeByStart
from hyperfront.solvers.pbi import PBI
from hyperfront.solvers.pmtl import PMTL
from hyperfront.solvers.smooth_tchebycheff import SmoothTchebycheff
from hyperfront.solvers.tchebycheff import Tchebycheff

__all__ = [
    "COSMOS",
    "EPO",
    "LS",
    "MGDA",
    "PBI",
    "PMTL",
    "Average",
    "Clip",
    "HVMax",
    "Normalize",
    "NormalizeByStart",
    "SmoothTchebycheff",
    "Solver",
    "Stateful",
    "Status",
    "Tchebycheff",
    "chain",
    "lift",
]
