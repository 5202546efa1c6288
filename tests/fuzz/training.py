"""``fit`` with random arguments, on a tiny problem for an epoch or two."""

from __future__ import annotations

import copy
import warnings
from numbers import Number
from random import Random
from typing import Any

import torch

import hyperfront as hf
from tests.fuzz import api, signatures
from tests.fuzz.campaign import Outcome, Wrong, attempt
from tests.fuzz.signatures import Target

TINY: dict[str, tuple[Any, ...]] = {
    "epochs": (1, 1, 2),
    "rays_per_step": (1, 2, 3),
    "batch_size": (4, 6, 12, 100),
    "lr": (1e-3, 0.1),
    "schedule": ("constant", "cosine", None),
    "warmup": (0, 1),
    "seed": (0, 1, 2**32),
    "out": ("run", "other/run", None),
    "device": ("cpu", torch.device("cpu"), None),
    "engine": ("auto", "eager", "graph"),
    "precision": (None, "float32", "bfloat16"),
    "validate_every": (1, 2),
    "validation_rays": (3, 1, [[0.5, 0.5]]),
    "patience": (1, None),
    "optimizer": (torch.optim.SGD, torch.optim.Adam, lambda parameters: torch.optim.SGD(parameters, lr=0.1)),
    "callbacks": ((), []),
    "criterion": (None, hf.Front.nondominated_share),
}
"""Values for the arguments of ``fit``. Compiling takes half a minute, so ``engine="compiled"`` is left out."""
LONG = ("epochs", "rays_per_step", "validation_rays", "batch_size", "patience", "validate_every", "warmup")
"""Arguments of which a large number is right, but takes long."""


class Training(api.Calls):
    """The family of calls of ``fit``."""

    name, seconds, batch = "fit", 120.0, 100

    def prepare(self) -> None:
        super().prepare()
        self.target = Target("hyperfront.fit", hf.fit)
        self.problems = (self.shared.problem, self.shared.analytic)
        self.models = (self.shared.model, self.shared.point_model)

    def run(self, number: int) -> Outcome:
        draw = Random(number)
        warnings.simplefilter("ignore")
        torch.manual_seed(number)
        which = draw.randrange(2)
        kwargs: dict[str, Any] = {"epochs": 1, "callbacks": (), "validation_rays": 3}
        for parameter, kind in signatures.parameters(hf.fit)[2:]:
            if draw.random() < 0.12:
                kwargs[parameter.name] = self.of(draw, parameter.name, kind, draw.choice((0.0, 0.0, 0.0, 0.4)))
        args = [copy.deepcopy(self.models[which]), self.problems[which]]
        if draw.random() < 0.05:
            args[draw.randrange(2)] = self.odd(draw)
        return attempt("hyperfront.fit", lambda: _trained(hf.fit(*args, **kwargs)))

    def of(self, draw: Random, name: str, kind: Any, oddness: float) -> Any:
        """A value for an argument that does not make a right run a long one."""
        while True:
            small = name in TINY and draw.random() < 0.7
            value = (
                draw.choice(TINY[name]) if small and draw.random() > oddness else self.value(draw, name, kind, oddness)
            )
            if not (name in LONG and isinstance(value, Number) and not isinstance(value, complex) and value > 200):
                return value if not (name == "engine" and value == "compiled") else "eager"


def _trained(run: hf.Run) -> None:
    """Weights of a run that did not fail are finite."""
    if not all(tensor.isfinite().all() for tensor in run.model.state_dict().values() if tensor.is_floating_point()):
        raise Wrong("a weight is not finite")
