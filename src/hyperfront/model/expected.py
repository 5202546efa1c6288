"""Checks that an argument is a model; their errors name the argument's type."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from hyperfront.errors import HyperfrontError, TargetError, shown
from hyperfront.model.hypernets import Hypernet
from hyperfront.model.pareto_model import ParetoModel
from hyperfront.model.sharded import refuse_sharded


def expect_model(thing: Any, use: str) -> ParetoModel:
    """Return ``thing`` if it is a model with all its parameters; otherwise raise an error that names the function
    ``use``."""
    if not isinstance(thing, ParetoModel):
        raise TargetError(
            f"{use} works on a model that hyperfront made",
            got=kind_of(thing),
            expected="a model from hyperfront.wrap or hyperfront.load",
            fix=_fix(thing),
        )
    if not isinstance(thing.hypernet, Hypernet):
        raise TargetError(
            "the model's hypernetwork is no hypernetwork",
            got=kind_of(thing.hypernet),
            fix="wrap the whole model, DistributedDataParallel(model), and leave model.hypernet as it is",
        )
    refuse_sharded(thing, use)
    return thing


def expect_device(device: Any) -> torch.device:
    """Return the device of that name, or raise an error if this machine does not have it."""
    fault: object = "it holds no numbers"
    try:
        found = torch.device(device)
        torch.empty(0, device=found)
        if found.type != "meta":
            return found
    except (AssertionError, NotImplementedError, RuntimeError, TypeError) as error:
        fault = str(error).split("\n")[0]
    raise HyperfrontError(
        "this device cannot be used",
        got=f"{shown(device)}: {fault}",
        expected='"cpu"'
        + (f' or "cuda:0" to "cuda:{torch.cuda.device_count() - 1}"' if torch.cuda.is_available() else ""),
    )


def _fix(thing: Any) -> str | None:
    inner = getattr(thing, "module", None)
    if isinstance(inner, ParetoModel):
        return f"pass the model inside, {type(thing).__name__}.module"
    if isinstance(getattr(thing, "model", None), ParetoModel):
        return f"pass the model inside, {type(thing).__name__}.model"
    return "model = hyperfront.wrap(module, objectives)" if isinstance(thing, nn.Module | type) else None


def kind_of(thing: Any) -> str:
    """Describe an object in words: as a class, or by its class."""
    return f"the class {thing.__name__}" if isinstance(thing, type) else f"a {type(thing).__name__}"
