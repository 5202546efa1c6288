"""Solvers by the names that commands and result files use."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import partial
from typing import Any

from hyperfront.errors import HyperfrontError, unknown_name
from hyperfront.solvers.base import Solver
from hyperfront.solvers.cosmos import COSMOS
from hyperfront.solvers.epo import EPO
from hyperfront.solvers.hvmax import HVMax
from hyperfront.solvers.ls import LS
from hyperfront.solvers.mgda import MGDA
from hyperfront.solvers.pbi import PBI
from hyperfront.solvers.pmtl import PMTL
from hyperfront.solvers.smooth_tchebycheff import SmoothTchebycheff
from hyperfront.solvers.tchebycheff import Tchebycheff

SOLVERS: dict[str, Callable[..., Solver]] = {
    "epo": EPO,
    "ls": LS,
    "tchebycheff": Tchebycheff,
    "stch": SmoothTchebycheff,
    "pbi": PBI,
    "cosmos": partial(COSMOS, weight=5.0),  # the class has no default; this weight suits losses of about 1
    "pmtl": PMTL,
    "hvmax": HVMax,
    "mgda": MGDA,
}


def make_solver(name: str, arguments: dict[str, Any] | None = None) -> Solver:
    """Make the solver of that name.

    >>> make_solver("stch", {"temperature": 0.5})
    SmoothTchebycheff(temperature=0.5, ideal=0.0)
    """
    if name not in SOLVERS:
        classes = {getattr(make, "__name__", "").lower(): short for short, make in SOLVERS.items()}
        if name.lower() in classes:
            raise HyperfrontError(
                "no such solver", got=name, expected=", ".join(SOLVERS), fix=f"its name here is {classes[name.lower()]}"
            )
        raise unknown_name("solver", name, SOLVERS)
    try:
        return SOLVERS[name](**arguments or {})
    except TypeError as error:
        known = inspect.signature(SOLVERS[name]).parameters
        raise HyperfrontError(
            f"the solver {name!r} does not take these arguments", got=error, expected=", ".join(known) or "none"
        ) from None
