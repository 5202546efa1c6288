"""hyperfront: one model, every trade-off.

Two words carry everything:

- a **ray** is a preference: ``m`` non-negative numbers that sum to 1, one for each objective;
- a **front** is the losses reached at rays.

:func:`wrap` turns any ``nn.Module`` into a :class:`ParetoModel`, which has a network for every ray. :func:`supervised`
or :func:`analytic` states the objectives. :func:`fit` trains with a solver (:class:`LS`, :class:`EPO`, or any
scalarisation through :func:`lift`) on rays drawn from preferences (:class:`Dirichlet`). :func:`evaluate` measures a
:class:`Front`, :meth:`Front.select` finds the ray of an operating point, and ``model.at(ray)`` is a plain module.

Shapes are one contract everywhere: ``m`` objectives, ``R`` rays, ``B`` rows, ``n`` generated weights; rays first.
"""

from hyperfront.errors import HyperfrontError
from hyperfront.front import Front, evaluate
from hyperfront.measures import Gathered, SetLoss
from hyperfront.model import ParetoModel, wrap
from hyperfront.preferences import Dirichlet, FixedRays, das_dennis, rays
from hyperfront.problem import Problem, analytic, supervised
from hyperfront.runs import Run, load
from hyperfront.solvers import EPO, LS, Status, lift
from hyperfront.training import Callback, Progress, Step, TensorBoard, backward, fit

__version__ = "0.1.0"

__all__ = [
    "EPO",
    "LS",
    "Callback",
    "Dirichlet",
    "FixedRays",
    "Front",
    "Gathered",
    "HyperfrontError",
    "ParetoModel",
    "Problem",
    "Progress",
    "Run",
    "SetLoss",
    "Status",
    "Step",
    "TensorBoard",
    "analytic",
    "backward",
    "das_dennis",
    "evaluate",
    "fit",
    "lift",
    "load",
    "rays",
    "supervised",
    "wrap",
]
