"""The options that several commands have, and how their values are read."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

import torch
import tyro

from hyperfront.errors import HyperfrontError
from hyperfront.problem import Problem


def option(metavar: str, about: str | None = None) -> Any:
    """Make an option without a remark on its default: its help text states the default, or it has none."""
    return tyro.conf.arg(metavar=metavar, help=about, help_behavior_hint="")


Arguments = Annotated[tuple[str, ...], option("X=Y ...")]
Folder = Annotated[Path | None, option("FOLDER")]
Keep = Annotated[
    Literal["all"] | int,
    tyro.conf.arg(metavar="N", help="Checkpoints to keep: N >= 2, or all."),
]
Number = Annotated[int | None, tyro.conf.arg(metavar="N", help_behavior_hint="(preset)")]
Flag = Annotated[bool, tyro.conf.arg(help_behavior_hint="")]
RAYS = 5
"""The default number of rays of a comparison or a search."""

# A trained run, and the user's own code if the run was trained on the user's own problem.
TrainedRun = Annotated[Path, tyro.conf.arg(metavar="RUN", help="Run folder or checkpoint file.")]
Which = Annotated[
    Literal["best", "last"] | None, option("{best,last}", "Checkpoint; by default the best, else the last.")
]
Target = Annotated[str | None, option("NAME", "Your own module, as package.module:factory.")]
OwnProblem = Annotated[str | None, option("NAME", "Your own problem, as package.module:factory.")]

# A built-in problem.
BuiltIn = Annotated[str, tyro.conf.arg(metavar="PROBLEM", help="Name, module:factory, CSV or run.")]
Column = Annotated[str | None, option("NAME", "For a table: the column to predict.")]
Columns = Annotated[tuple[str, ...], option("NAME ..", "For a table: columns of groups.")]
Losses = Annotated[tuple[str, ...], option("NAME ..", "For a table: losses to train.")]
DataFolder = Annotated[Path | None, option("FOLDER", "Data; by default HYPERFRONT_DATA, else the cache.")]
Preset = Annotated[str | None, option("NAME", "Preset of the problem; by default the first.")]
Tf32 = Annotated[bool, tyro.conf.arg(help="Let a GPU round matrix products to TF32: faster.", help_behavior_hint="")]
Device = Annotated[
    str, tyro.conf.arg(metavar="NAME", help="cpu, cuda, or auto: a GPU, if there is one, for problems with data.")
]
Engine = Annotated[str, tyro.conf.arg(metavar="NAME", help="How steps run: eager, traced, compiled, graph, or auto.")]


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
    """Convert a text to the truth value or number that it states; return other texts unchanged."""
    if text.lower() in ("true", "false"):
        return text.lower() == "true"
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text


def check_port(port: int) -> int:
    """Return the port, or raise an error for an impossible one."""
    if not 0 <= port < 2**16:
        raise HyperfrontError("no such port", got=port, expected="0 (any free port) to 65535")
    return port


def default_folder(command: str, problem: str, preset: str, changes: Mapping[str, bool]) -> Path:
    """The default folder of a command; ``changes`` that apply are part of its name, so that other settings have another
    folder.

    >>> str(default_folder("tune", "adult", "quick", {"5-epochs": True, "seed-0": False}))
    'runs/tune-adult-quick-5-epochs'
    """
    return Path("runs") / "-".join([command, problem, preset, *(word for word, applies in changes.items() if applies)])


def choose_device(name: str, problem: Problem) -> torch.device:
    """Find the device of that name; ``auto`` is a GPU, if there is one, for problems with data."""
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
    """Say whether a GPU may round the factors of matrix products; results record it."""
    torch.set_float32_matmul_precision("high" if wanted else "highest")
