"""Loading: a model from a run folder or a checkpoint, with the module that it was made of.

A checkpoint holds numbers but no code. A built-in problem is made by its name; your own module is an argument, or the
name of a function, which is imported only because you name it.
"""

from __future__ import annotations

import importlib
import os
import sys
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal

import torch
from torch import Tensor, nn

from hyperfront.errors import CheckpointError, DamagedError, HyperfrontError, check_choice, shown
from hyperfront.errors.signatures import checked
from hyperfront.model import ParetoModel, restore
from hyperfront.model.expected import expect_device
from hyperfront.problem import Problem
from hyperfront.problem.registry import build, is_builtin
from hyperfront.storage import checkpoint, files
from hyperfront.training.runs import RunFolder, model_tensors

LARGEST_NUMBER = 10**6
"""The largest whole number in the arguments of a stored problem, unless the checkpoint has more values."""


@checked
def load(
    path: str | Path,
    target: nn.Module | str | None = None,
    *,
    which: Literal["best", "last"] | None = None,
    hypernet: nn.Module | None = None,
    device: str | torch.device = "cpu",
) -> ParetoModel:
    """Load a trained model from a run folder or a checkpoint file.

    Runs of built-in problems need no ``target``. Otherwise it is a module with the same tensors, or the name
    ``"package.module:factory"`` of a function that makes one; nothing is imported unless you name it here.
    """
    path, device = files.as_path(path), expect_device(device)
    if which is not None:
        check_choice("checkpoint", which, ("best", "last"))
    file = RunFolder(path).checkpoint(which) if path.is_dir() else path
    tensors, document = _read(file)
    if "plain" in document:
        raise CheckpointError(
            "the file holds the network at one ray, not a front",
            got=file,
            fix="use the loader beside it, or module.load_state_dict(safetensors.torch.load_file(path))",
        )
    module = import_factory(target) if isinstance(target, str) else target
    try:
        model = document["model"]
        record = model["record"]
        if target is None and not is_builtin(record.get("problem")):
            raise CheckpointError(
                "the checkpoint holds numbers but no code, so you must pass the module",
                got=f"{file}, which names no built-in problem",
                fix='hyperfront.load(path, target=YourModule()) or target="package.module:factory"',
            )
        if target is None:
            make = recorded_problem(record, most=sum(tensor.numel() for tensor in tensors.values())).make_target
            module = make() if make else None
        if not isinstance(module, nn.Module):
            raise HyperfrontError("the target is not a module", got=type(module).__name__, expected="an nn.Module")
        restored = restore(model_tensors(tensors), model, module, hypernet)
    except HyperfrontError:
        raise
    except (LookupError, TypeError, ValueError, AttributeError, ArithmeticError, RuntimeError) as error:
        raise CheckpointError("a part of the checkpoint is missing or invalid", got=f"{file}: {error!r}") from None
    return restored.to(device)


def _read(file: Path) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Read a checkpoint; instead of a damaged ``last``, read the one before with a warning."""
    try:
        return checkpoint.read(file)
    except DamagedError as error:
        folder = RunFolder(file.parent)
        if file != folder.last or not folder.previous.exists():
            raise
        found = checkpoint.read(folder.previous)
        warnings.warn(f"{error.what}: {folder.previous}, the checkpoint before, is loaded", stacklevel=3)
        return found


def recorded_problem(
    record: Mapping[str, Any], *, most: int = LARGEST_NUMBER, data_dir: str | Path | None = None
) -> Problem:
    """Make the built-in problem that a checkpoint was trained on.

    Its arguments come from a file, which may be forged. So they may not name a folder (the reader passes ``data_dir``),
    nor have whole numbers above ``most`` and :data:`LARGEST_NUMBER`, since numbers become sizes in memory.
    """
    arguments = dict(record["arguments"])
    allowed = max(most, LARGEST_NUMBER)
    for name, value in arguments.items():
        if name == "data_dir" or (isinstance(value, int) and abs(value) > allowed):
            raise CheckpointError("the checkpoint has an argument that no problem should have", got=f"{name} = {value}")
    return build(record["problem"], data_dir=data_dir, **arguments)


def import_factory(name: str) -> Any:
    """Call the function ``"package.module:factory"``; the module may be in the current folder."""
    module, _, attribute = name.partition(":")
    try:
        with _current_folder():
            factory = getattr(importlib.import_module(module), attribute)
        return factory()
    except (ImportError, AttributeError, ValueError, TypeError) as error:
        raise HyperfrontError(
            f"{shown(name)} cannot be imported",
            got=error,
            expected='"package.module:factory"',
            fix="start in the folder of the module, or name that folder in PYTHONPATH",
        ) from None


@contextmanager
def _current_folder() -> Iterator[None]:
    """Make modules of the current folder importable within the ``with`` block, after all installed modules.

    Outside of it they are not: a file beside a downloaded run may have the name of a module that a library imports.
    """
    folder = os.getcwd()
    sys.path.append(folder)
    try:
        yield
    finally:
        sys.path[:] = [place for place in sys.path if place is not folder]  # "is": keep an equal entry of the user's
