"""A run is a folder: configuration, environment, metrics, checkpoints, front, pictures. Nothing in it is code."""

from __future__ import annotations

import hashlib
import importlib
import json
import os
import sys
import warnings
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import torch
from torch import Tensor, nn

from hyperfront.errors import CheckpointError, DamagedError, HyperfrontError, unknown_name
from hyperfront.front import Front
from hyperfront.model import ParetoModel, restore
from hyperfront.problem import Problem
from hyperfront.problem.registry import build, is_builtin
from hyperfront.storage import checkpoint, files

LARGEST_NUMBER = 10**6


class RunFolder:
    """The files of a run."""

    def __init__(self, path: Path):
        self.path = path
        self.config, self.environment = path / "config.json", path / "environment.json"
        self.metrics, self.front = path / "metrics.jsonl", path / "front.json"
        self.last, self.best = path / "last.safetensors", path / "best.safetensors"
        self.previous = path / "previous.safetensors"
        """The checkpoint before ``last``."""

    def __repr__(self) -> str:
        return f"RunFolder({str(self.path)!r})"

    def create(self, config: dict[str, Any], environment: dict[str, Any]) -> None:
        files.write_json(self.config, config)
        files.write_json(self.environment, environment)

    def discard(self) -> None:
        """Leave nothing behind of a run that failed before its first checkpoint."""
        if not any(file.exists() for file in (self.last, self.previous, self.best)) and not self.records():
            for file in (self.config, self.environment, self.metrics):
                file.unlink(missing_ok=True)
            if self.path.is_dir() and not any(self.path.iterdir()):
                self.path.rmdir()

    def remove_temporary(self) -> None:
        """Remove what killed processes have left; the folder must be locked."""
        written = (self.config, self.environment, self.metrics, self.front, self.last, self.previous, self.best)
        files.remove_temporary(written)

    def identity(self) -> str | None:
        """The identity of the run that the newest checkpoint belongs to; None where no checkpoint says it."""
        for file in (self.last, self.previous):
            with suppress(CheckpointError):
                return checkpoint.read(file)[1].get("run", {}).get("identity")
        return None

    def read_config(self) -> dict[str, Any]:
        return files.read_json(self.config)

    def records(self) -> list[dict[str, Any]]:
        """The metrics, one record for each epoch."""
        return read_records(self.metrics)

    def seconds(self) -> float:
        """What all epochs so far have taken, without validation."""
        return sum(record["seconds"] for record in self.records())

    def checkpoint(self, which: Literal["best", "last"] | None = None) -> Path:
        """The checkpoint asked for; by default the best, or the last where nothing was selected."""
        if which not in (None, "best", "last"):
            raise unknown_name("checkpoint", str(which), ("best", "last"))
        chosen = self.best if which == "best" or (which is None and self.best.exists()) else self.last
        if not chosen.exists():
            fix = "the last: nothing was selected in this run" if self.last.exists() else "check the path of the run"
            raise CheckpointError("the folder holds no such checkpoint", got=self.path, expected=chosen.name, fix=fix)
        return chosen

    def tensors(self, which: Literal["best", "last"]) -> dict[str, Tensor]:
        """The model's tensors in a checkpoint."""
        return model_tensors(checkpoint.read(self.checkpoint(which))[0])


def identity_of(config: Mapping[str, Any]) -> str:
    """A checksum of a configuration, which all checkpoints of the run hold."""
    return hashlib.blake2b(files.dumps(config).encode(), digest_size=8).hexdigest()


def read_records(path: Path) -> list[dict[str, Any]]:
    """The records of a log, in the order of their epochs, without lines that were cut off by a crash or damaged."""
    if not path.exists():
        return []
    records: dict[int, dict[str, Any]] = {}
    for line in path.read_text(errors="replace").splitlines():
        with suppress(ValueError, RecursionError):
            record = json.loads(line)
            if isinstance(record, dict) and isinstance(record.get("epoch"), int):
                records[record["epoch"]] = record
    return [records[epoch] for epoch in sorted(records)]


@dataclass(frozen=True, eq=False, repr=False)
class Run:
    """What :func:`hyperfront.fit` returns."""

    model: ParetoModel
    front: Front | None
    """The validation front of the model; None for a problem without validation data."""
    history: list[dict[str, Any]]
    """One record for each epoch, as in ``metrics.jsonl``."""
    folder: RunFolder | None

    @property
    def status(self) -> dict[str, int]:
        """How many rays of the training were solved how."""
        return dict(sum((Counter(record["status"]) for record in self.history), Counter()))

    def __repr__(self) -> str:
        where = f" in {self.folder.path}" if self.folder else ""
        return f"Run of {len(self.history)} epochs{where}: {self.front or 'no validation data'}"

    def _repr_html_(self) -> str:
        """What a notebook shows: what was trained, how far it came, and the front."""
        from hyperfront.training import notebook  # needs matplotlib

        return notebook.html(self)


def load(
    path: str | Path,
    target: nn.Module | str | None = None,
    *,
    which: Literal["best", "last"] | None = None,
    hypernet: nn.Module | None = None,
    device: str | torch.device = "cpu",
) -> ParetoModel:
    """A trained model from a run folder or a checkpoint file.

    Runs of built-in problems need no ``target``. Otherwise it is a module with the same tensors, or the name
    ``"package.module:factory"`` of a function that makes one; nothing is imported unless you name it here.
    """
    path = Path(path)
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
                "the checkpoint holds numbers and no code, so the module must come from you",
                got=f"{file} of no built-in problem",
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
        raise CheckpointError(
            "the checkpoint lacks a part, or has one that means nothing", got=f"{file}: {error!r}"
        ) from None
    return restored.to(device)


def _read(file: Path) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Read a checkpoint; in the place of a damaged ``last`` the one before, with a warning."""
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
    """The built-in problem that a checkpoint was trained on.

    Its arguments come out of a file, so they may name no folder (``data_dir`` is for the reader to say), and no whole
    number above ``most``, or what is usual, since numbers make sizes.
    """
    arguments = dict(record["arguments"])
    allowed = max(most, LARGEST_NUMBER)
    for name, value in arguments.items():
        if name == "data_dir" or (isinstance(value, int) and abs(value) > allowed):
            raise CheckpointError("the checkpoint has an argument that no problem should have", got=f"{name} = {value}")
    return build(record["problem"], data_dir=data_dir, **arguments)


def model_tensors(tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    """Without the training state, and without the prefix that tells it apart."""
    if any(name.startswith("model.") for name in tensors):
        return {name.removeprefix("model."): t for name, t in tensors.items() if name.startswith("model.")}
    return tensors


def import_factory(name: str) -> Any:
    """What the function ``"package.module:factory"`` makes; the module may lie in the current folder."""
    module, _, attribute = name.partition(":")
    try:
        with _current_folder():
            factory = getattr(importlib.import_module(module), attribute)
        return factory()
    except (ImportError, AttributeError, ValueError) as error:
        raise HyperfrontError(
            f"{name!r} cannot be imported",
            got=error,
            expected='"package.module:factory"',
            fix="start in the folder of the module, or name that folder in PYTHONPATH",
        ) from None


@contextmanager
def _current_folder() -> Iterator[None]:
    """Inside, modules of the current folder can be imported, after all that is installed.

    At any other time they cannot: a file beside a downloaded run may have the name of a module that a library tries.
    """
    folder = os.getcwd()
    sys.path.append(folder)
    try:
        yield
    finally:
        sys.path[:] = [place for place in sys.path if place is not folder]  # an equal one was there before
