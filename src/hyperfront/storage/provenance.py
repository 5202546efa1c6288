"""Provenance: the resolved configuration and the environment, which a run stores before its first step."""

from __future__ import annotations

import functools
import numbers
import os
import platform
import subprocess
from collections.abc import Mapping
from dataclasses import asdict, fields, is_dataclass
from importlib import metadata
from typing import Any

import torch
from torch import Tensor

from hyperfront.errors import CheckpointError

NUMERICS = 1
"""The numerics version: raise it with every change that can alter the numbers of a run, and say why in this list.

1   the first version that results state; results without one may also be from before the fixes that
    docs/problems.md lists
"""


def describe(thing: Any) -> Any:
    """Describe ``thing`` as JSON: dataclasses by name and fields, functions by module and name."""
    if thing is None or isinstance(thing, bool | int | float | str):
        return thing
    if isinstance(thing, numbers.Real):  # of NumPy
        return int(thing) if isinstance(thing, numbers.Integral) else float(thing)
    if isinstance(thing, Tensor):
        return thing.tolist()
    if isinstance(thing, dict):
        return {str(key): describe(value) for key, value in thing.items()}
    if isinstance(thing, list | tuple):
        return [describe(value) for value in thing]
    if is_dataclass(thing) and not isinstance(thing, type):
        return {"name": type(thing).__name__, **{f.name: describe(getattr(thing, f.name)) for f in fields(thing)}}
    if isinstance(thing, functools.partial):
        return {"name": describe(thing.func), "arguments": describe(list(thing.args)), **describe(thing.keywords)}
    if callable(thing):
        return f"{getattr(thing, '__module__', '?')}:{getattr(thing, '__qualname__', type(thing).__qualname__)}"
    return type(thing).__name__


def refuse_difference(stored: Mapping[str, Any], asked: Mapping[str, Any], *, what: str, fix: str) -> None:
    """Raise an error that lists the differences, if settings differ from the stored ones."""
    stored, asked = _flat(stored), _flat(asked)
    different = [key for key in sorted(stored.keys() | asked.keys()) if stored.get(key) != asked.get(key)]
    if different:
        raise CheckpointError(
            what,
            got="; ".join(f"{key} = {_short(asked.get(key))}" for key in different),
            expected="; ".join(f"{key} = {_short(stored.get(key))}" for key in different),
            fix=fix + (" (a longer run is a different run: it has another schedule)" if "epochs" in different else ""),
        )


def _flat(settings: Mapping[str, Any], before: str = "") -> dict[str, Any]:
    """Flatten nested settings to dotted names.

    >>> _flat({"lr": 0.1, "model": {"hidden": 25}})
    {'lr': 0.1, 'model.hidden': 25}
    """
    flat: dict[str, Any] = {}
    for key, value in settings.items():
        flat |= _flat(value, f"{before}{key}.") if isinstance(value, Mapping) else {before + key: value}
    return flat


def _short(value: Any) -> str:
    text = str(value)
    if len(text) <= 100:
        return text
    return f"{len(value)} values, {text[:60]}..." if isinstance(value, list) else f"{text[:97]}..."


def environment(device: torch.device) -> dict[str, Any]:
    """Describe versions, machine and git state, for later readers of the run."""
    return {
        "hyperfront": _version("hyperfront"),
        "numerics": NUMERICS,
        "torch": torch.__version__,
        "numpy": _version("numpy"),
        "python": platform.python_version(),
        "platform": platform.platform(),
        "device": torch.cuda.get_device_name(device) if device.type == "cuda" else platform.processor() or "cpu",
        "cores": os.cpu_count(),
        "threads": torch.get_num_threads(),
        "products": torch.get_float32_matmul_precision(),
        "git": _git(),
    }


def _version(package: str) -> str:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return "not installed"


def _git() -> str | None:
    """The commit of the working directory, with ``-dirty`` if files have changed; None outside a repository.

    The repository may come from a stranger, and its configuration can name programs: no monitor, hook, transport or
    submodule of it is used. Filters would run when files are compared, so where it has any, nothing is compared.
    """
    commit = _ask_git("rev-parse", "--verify", "HEAD")
    if not commit:
        return None
    filters = _ask_git("config", "--show-scope", "--get-regexp", r"^filter\..*\.(clean|smudge|process)$") or ""
    if any(line.startswith(("local", "worktree")) for line in filters.splitlines()):
        return f"{commit}, changes unknown"
    changes = _ask_git("status", "--porcelain", "--untracked-files=no", "--ignore-submodules=all")
    return f"{commit}, changes unknown" if changes is None else f"{commit}-dirty" if changes else commit


def _ask_git(*words: str) -> str | None:
    """Return git's answer, or None; no program that the repository's own configuration names is run."""
    command = ["git", "--no-optional-locks", "-c", "core.fsmonitor=false", "-c", f"core.hooksPath={os.devnull}"]
    environment = os.environ | {"GIT_ALLOW_PROTOCOL": "none", "GIT_NO_LAZY_FETCH": "1"}
    try:
        done = subprocess.run(
            [*command, *words], env=environment, capture_output=True, text=True, check=True, timeout=60
        )
    except (OSError, ValueError, subprocess.SubprocessError):
        return None
    return done.stdout.strip()


def units(problem: Any) -> dict[str, Any]:
    return {key: list(value) for key, value in asdict(problem.units).items()}
