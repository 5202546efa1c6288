"""hyperfront: one model, every trade-off.

Two words carry everything:

- a **ray** is a preference: ``m`` non-negative numbers that sum to 1, one for each objective;
- a **front** is the losses reached at rays.

:func:`wrap` turns any ``nn.Module`` into a :class:`ParetoModel`, which has a network for every ray. :func:`supervised`
or :func:`analytic` states the objectives. :func:`fit` trains with a solver (:class:`EPO` or :class:`LS`;
:mod:`hyperfront.solvers` has seven more, ``lift`` for any scalarization, and ``chain`` to add normalization and the
like) on rays drawn from preferences (:class:`Dirichlet`). :func:`evaluate` measures a :class:`Front`,
:meth:`Front.select` finds the ray of an operating point, :func:`intervals` says how sure its losses are, and
``model.at(ray)`` is a plain module; :mod:`hyperfront.export` makes files of it, or of the whole front. :func:`explore`
shows all of it on a page.

Shapes are one contract everywhere: ``m`` objectives, ``R`` rays, ``B`` rows, ``n`` generated weights; rays first.
"""

import sys

# Under ``python -m hyperfront`` (or ``-mhyperfront``) Python puts the current folder first, and it may hold anything:
# no module may be imported before it is removed. ``python -m`` of a package that imports this one keeps its folder.
if sys.argv[:1] == ["-m"] and f" {sys.orig_argv[-len(sys.argv)]}".endswith((" hyperfront", "mhyperfront")):
    del sys.path[: not sys.flags.safe_path]

from importlib import import_module
from typing import TYPE_CHECKING, Any

from hyperfront.errors import HyperfrontError
from hyperfront.front import Front, align, evaluate
from hyperfront.model import ParetoModel, wrap
from hyperfront.preferences import Dirichlet, rays
from hyperfront.problem import Decision, Gap, Loss, Presentation, Problem, Score, analytic, supervised

if TYPE_CHECKING:
    from hyperfront import comparison as comparison
    from hyperfront import export as export
    from hyperfront import lightning as lightning
    from hyperfront import sklearn as sklearn
    from hyperfront import solvers as solvers
    from hyperfront import tabular as tabular
    from hyperfront import training as training
    from hyperfront.apps.explorer import explore
    from hyperfront.front.intervals import intervals
    from hyperfront.model.ensemble import ensemble
    from hyperfront.solvers import EPO, LS
    from hyperfront.training import Step, backward, check, distill, fit
    from hyperfront.training.loading import load
    from hyperfront.training.runs import Run

__version__ = "0.1.0"

__all__ = [
    "EPO",
    "LS",
    "Decision",
    "Dirichlet",
    "Front",
    "Gap",
    "HyperfrontError",
    "Loss",
    "ParetoModel",
    "Presentation",
    "Problem",
    "Run",
    "Score",
    "Step",
    "align",
    "analytic",
    "backward",
    "check",
    "distill",
    "ensemble",
    "evaluate",
    "explore",
    "fit",
    "intervals",
    "load",
    "rays",
    "supervised",
    "wrap",
]

_ROOMS = ("comparison", "export", "lightning", "sklearn", "solvers", "tabular", "training")
_LATER = {  # where a name lives whose module is imported when the name is first used
    "EPO": "solvers",
    "LS": "solvers",
    "Run": "training.runs",
    "Step": "training",
    "backward": "training",
    "check": "training",
    "distill": "training",
    "ensemble": "model.ensemble",
    "explore": "apps.explorer",
    "fit": "training",
    "intervals": "front.intervals",
    "load": "training.loading",
}


def __getattr__(name: str) -> Any:
    if name in _ROOMS:
        return import_module(f"hyperfront.{name}")
    if name in _LATER:
        return getattr(import_module(f"hyperfront.{_LATER[name]}"), name)
    raise AttributeError(f"module 'hyperfront' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *_LATER, *_ROOMS})
