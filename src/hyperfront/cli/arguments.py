"""Words of the command line as values."""

from __future__ import annotations

from typing import Annotated, Any

import torch
import tyro

from hyperfront.errors import HyperfrontError
from hyperfront.problem import Problem

Arguments = Annotated[tuple[str, ...], tyro.conf.arg(metavar="NAME=VALUE ...", help_behavior_hint="")]


def parse(arguments: tuple[str, ...]) -> dict[str, Any]:
    """``("m=4", "gap=logit")`` as ``{"m": 4, "gap": "logit"}``."""
    parsed: dict[str, Any] = {}
    for argument in arguments:
        key, equals, text = argument.partition("=")
        if not equals:
            raise HyperfrontError("an argument has no value", got=argument, expected="name=value")
        parsed[key] = value(text)
    return parsed


def value(text: str) -> bool | int | float | str:
    """What the text is, if it is a truth value or a number; else the text."""
    if text.lower() in ("true", "false"):
        return text.lower() == "true"
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text


def choose_device(name: str, problem: Problem) -> torch.device:
    """The device of that name; ``auto`` is a GPU, if there is one, for problems with data."""
    if name == "auto":
        return torch.device("cuda" if problem.has_data and torch.cuda.is_available() else "cpu")
    try:
        device = torch.device(name)
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError) as error:
        raise HyperfrontError("no such device", got=name, expected="cpu, cuda or auto") from error
    return device
