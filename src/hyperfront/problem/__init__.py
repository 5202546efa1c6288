"""Problems: objectives with units and a reference point, their losses, and the data they are measured on.

:func:`supervised` makes a problem with data; :func:`analytic` makes one without data, whose target is the point itself.
"""

from hyperfront.problem.analytic import Point, analytic
from hyperfront.problem.described import Described, Loss, Score
from hyperfront.problem.gaps import Gap
from hyperfront.problem.losses import Gathered, Mean, Measure, SetLoss
from hyperfront.problem.meaning import Meaning
from hyperfront.problem.presentation import Decision, Presentation
from hyperfront.problem.problem import Problem, Split, Truth, check_reference, scalar
from hyperfront.problem.supervised import supervised

__all__ = [
    "Decision",
    "Described",
    "Gap",
    "Gathered",
    "Loss",
    "Mean",
    "Meaning",
    "Measure",
    "Point",
    "Presentation",
    "Problem",
    "Score",
    "SetLoss",
    "Split",
    "Truth",
    "analytic",
    "check_reference",
    "scalar",
    "supervised",
]
