"""Runs: a folder with configuration, environment, metrics, checkpoints, front and pictures, but without code."""

from __future__ import annotations

import hashlib
import json
import re
from collections import Counter
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from torch import Tensor

from hyperfront.errors import CheckpointError, check_choice
from hyperfront.errors.signatures import checked
from hyperfront.front import Front
from hyperfront.model import ParetoModel
from hyperfront.storage import checkpoint, files


class RunFolder:
    """The files of a run."""

    def __init__(self, path: Path):
        self.path = path
        self.config, self.environment = path / "config.json", path / "environment.json"
        self.metrics, self.front = path / "metrics.jsonl", path / "front.json"
        self.last, self.best = path / "last.safetensors", path / "best.safetensors"
        self.previous = path / "previous.safetensors"
        """The checkpoint before ``last``."""
        self.choice = path / "choice.json"
        """The trade-off that training chose, if it was asked to."""
        self.command = path / "command.txt"
        """The command line that trained the run, if one did."""

    def epoch(self, number: int) -> Path:
        """The checkpoint after ``number`` epochs, in a run with ``keep=``."""
        return self.path / f"epoch-{number}.safetensors"

    def epochs(self) -> list[Path]:
        """Find the checkpoints of epochs, the newest first."""
        return sorted(filter(number_of, self.path.glob("epoch-*.safetensors")), key=number_of, reverse=True)

    def __repr__(self) -> str:
        return f"RunFolder({str(self.path)!r})"

    def create(self, config: dict[str, Any], environment: dict[str, Any]) -> None:
        """Write both files; the configuration last, since it makes the folder a run."""
        files.write_json(self.environment, environment)
        files.write_json(self.config, config)

    def discard(self) -> None:
        """Remove the files of a run that failed before its first checkpoint."""
        if not any(file.exists() for file in (self.last, self.previous, self.best)) and not self.records():
            for file in (self.config, self.environment, self.metrics):
                file.unlink(missing_ok=True)
            with suppress(OSError):  # the folder has other files, or a file system is mounted there
                self.path.rmdir()

    def temporary(self) -> list[Path]:
        """Find the temporary files of killed processes; the folder must be locked."""
        written = (self.config, self.environment, self.metrics, self.front, self.last, self.previous, self.best)
        others = (file for file in self.path.glob(".*") if files.TEMPORARY.fullmatch(file.name))  # pages, cards
        return sorted({*files.temporary(written), *others})

    def identity(self) -> str | None:
        """Read the identity of the run from its newest checkpoint; None if no checkpoint states it."""
        for file in (self.last, self.previous):
            with suppress(CheckpointError):
                return checkpoint.read(file)[1].get("run", {}).get("identity")
        return None

    def read_config(self) -> dict[str, Any]:
        config = files.read_json(self.config)
        if not isinstance(config, dict):
            raise CheckpointError("the configuration of the run is damaged", got=self.config, expected="a JSON object")
        return config

    def chosen_ray(self) -> list[float] | None:
        """Read the ray that training chose; None if it was not asked to choose."""
        document = files.read_json(self.choice) if self.choice.exists() else None
        if document is None:
            return None
        ray = document.get("ray") if isinstance(document, dict) else None
        if not isinstance(ray, list) or not all(isinstance(entry, int | float) for entry in ray):
            raise CheckpointError("the file of the chosen trade-off is damaged", got=self.choice)
        return ray

    def records(self) -> list[dict[str, Any]]:
        """Read the metrics, one record for each epoch."""
        return read_records(self.metrics)

    def seconds(self) -> float:
        """Return the seconds that all epochs have taken, without validation."""
        return sum(record["seconds"] for record in self.records())

    def checkpoint(self, which: Literal["best", "last"] | None = None) -> Path:
        """Find the checkpoint; by default the best, or the last if the run has no best."""
        if which is not None:
            check_choice("checkpoint", which, ("best", "last"))
        chosen = self.best if which == "best" or (which is None and self.best.exists()) else self.last
        if not chosen.exists():
            fix = 'which="last": the run selected no best weights' if self.last.exists() else "check the path"
            raise CheckpointError("the folder holds no such checkpoint", got=self.path, expected=chosen.name, fix=fix)
        return chosen

    def tensors(self, which: Literal["best", "last"]) -> dict[str, Tensor]:
        """Read the model's tensors from a checkpoint."""
        return model_tensors(checkpoint.read(self.checkpoint(which))[0])


def number_of(file: Path) -> int:
    """Read the epoch from the name of its checkpoint; 0 for another name."""
    found = re.fullmatch(r"epoch-([1-9]\d*)\.safetensors", file.name)
    return int(found[1]) if found else 0


def identity_of(config: Mapping[str, Any]) -> str:
    """Compute the checksum of a configuration, which all checkpoints of the run state."""
    return hashlib.blake2b(files.dumps(config).encode(), digest_size=8).hexdigest()


def read_records(path: Path) -> list[dict[str, Any]]:
    """Read the records of a log in the order of their epochs, without damaged and cut-off lines."""
    if not path.exists():
        return []
    records: dict[int, dict[str, Any]] = {}
    for line in path.read_text(errors="replace").splitlines():
        with suppress(ValueError, RecursionError):
            record = json.loads(line)
            if isinstance(record, dict) and isinstance(record.get("epoch"), int):
                records[record["epoch"]] = record
    return [records[epoch] for epoch in sorted(records)]


@checked
@dataclass(frozen=True, eq=False, repr=False)
class Run:
    """The result of :func:`hyperfront.fit`."""

    model: ParetoModel
    front: Front | None
    """The validation front of the model; None for a problem without validation data."""
    history: list[dict[str, Any]]
    """One record for each epoch, as in ``metrics.jsonl``."""
    folder: RunFolder | None

    @property
    def status(self) -> dict[str, int]:
        """The number of training rays for each status of the solver."""
        return dict(sum((Counter(record["status"]) for record in self.history), Counter()))

    def __repr__(self) -> str:
        where = f" in {self.folder.path}" if self.folder else ""
        return f"Run of {len(self.history)} epochs{where}: {self.front or 'no validation data'}"

    def _repr_html_(self) -> str:
        """Show model, best hypervolume and front in a notebook."""
        from hyperfront.training import notebook  # needs matplotlib

        return notebook.html(self)


def model_tensors(tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    """Return the model's tensors without the training state, and without the prefix of their names."""
    if any(name.startswith("model.") for name in tensors):
        return {name.removeprefix("model."): t for name, t in tensors.items() if name.startswith("model.")}
    return tensors
