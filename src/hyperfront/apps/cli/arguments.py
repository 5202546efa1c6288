"""Words of the command line: the options that several commands have, and their values."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

import torch
import tyro

from hyperfront.errors import HyperfrontError
from hyperfront.problem import Problem

Arguments = Annotated[tuple[str, ...], tyro.conf.arg(metavar="NAME=VALUE ...", help_behavior_hint="")]
Folder = Annotated[Path | None, tyro.conf.arg(metavar="FOLDER", help_behavior_hint="")]
Number = Annotated[int | None, tyro.conf.arg(metavar="N", help_behavior_hint="(from the preset)")]
RAYS = 5
"""Of a comparison or a search, unless said."""

# A trained run, and the user's own code where it is of no built-in problem.
TrainedRun = Annotated[Path, tyro.conf.arg(metavar="RUN", help="Run folder or checkpoint file.")]
Which = Annotated[
    Literal["best", "last"] | None,
    tyro.conf.arg(
        metavar="{best,last}",
        help="The checkpoint: by default the best, or the last where nothing was selected.",
        help_behavior_hint="",
    ),
]
Target = Annotated[
    str | None,
    tyro.conf.arg(
        metavar="NAME",
        help='"package.module:factory" of a module of your own; built-in problems need none.',
        help_behavior_hint="",
    ),
]
OwnProblem = Annotated[
    str | None,
    tyro.conf.arg(
        metavar="NAME",
        help='"package.module:factory" of a problem of your own; built-in problems need none.',
        help_behavior_hint="",
    ),
]

# A built-in problem.
DataFolder = Annotated[
    Path | None,
    tyro.conf.arg(
        metavar="FOLDER",
        help="Folder with the data; by default HYPERFRONT_DATA, else they are fetched into a cache.",
        help_behavior_hint="",
    ),
]
Preset = Annotated[
    str | None,
    tyro.conf.arg(
        metavar="NAME",
        help="Where other settings come from: quick, smoke, paper or best; for the Multi-MNIST sets also resnet18-1m, "
        "-2m, -5m and -11m. Problems without data have one preset.",
        help_behavior_hint="(the first of them)",
    ),
]
Tf32 = Annotated[bool, tyro.conf.arg(help="Let a GPU round the factors of products to TF32, which is faster.")]
Device = Annotated[
    str, tyro.conf.arg(metavar="NAME", help="cpu, cuda, or auto: a GPU for problems with data, if there is one.")
]
Engine = Annotated[
    str, tyro.conf.arg(metavar="NAME", help="How steps are run: eager, compiled, graph (a CUDA graph), or auto.")
]


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


def check_port(port: int) -> int:
    """The port, or an error."""
    if not 0 <= port < 2**16:
        raise HyperfrontError("no such port", got=port, expected="0 (any that is free) to 65535")
    return port


def usual_folder(command: str, problem: str, preset: str, unusual: Mapping[str, bool]) -> Path:
    """Where a command writes unless said: its name has what is ``unusual`` about the settings, so that others have a
    folder of their own.

    >>> str(usual_folder("tune", "adult", "quick", {"5-epochs": True, "seed-0": False}))
    'runs/tune-adult-quick-5-epochs'
    """
    return Path("runs") / "-".join([command, problem, preset, *(word for word, given in unusual.items() if given)])


def choose_device(name: str, problem: Problem) -> torch.device:
    """The device of that name; ``auto`` is a GPU, if there is one, for problems with data."""
    if name == "auto":
        return torch.device("cuda" if problem.has_data and torch.cuda.is_available() else "cpu")
    try:
        device = torch.device(name)
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError) as error:
        raise HyperfrontError(
            "PyTorch cannot use this device here", got=name, expected="cpu, auto, or cuda where there is a GPU"
        ) from error
    return device


def set_tf32(wanted: bool) -> None:
    """Whether a GPU may round the factors of matrix products, which results say of themselves."""
    torch.set_float32_matmul_precision("high" if wanted else "highest")
