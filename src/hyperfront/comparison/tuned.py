"""The file of tuned settings that `tune` writes and `compare` reads."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from hyperfront.comparison import formats
from hyperfront.errors import CheckpointError
from hyperfront.storage import files


@dataclass(frozen=True)
class Tuned:
    """The best settings of a method on a problem, and how they were found."""

    problem: str
    preset: str
    method: str
    settings: Mapping[str, Any]
    hypervolume: float | None
    """The validation hypervolume; for one model per ray, the hypervolume of a single point."""
    uniformity: float
    losses: list[list[float]]
    trials: Mapping[str, int]
    """The number of trials by how they ended."""
    made_with: Mapping[str, Any] = field(default_factory=dict)
    """All settings of the trials that were not searched."""

    def save(self, path: Path) -> None:
        files.write_json(path, formats.TUNED.stamp(asdict(self)))

    @classmethod
    def load(cls, path: Path) -> Tuned:
        try:
            return cls(**formats.read(formats.TUNED, path, settings="made_with"))
        except CheckpointError:
            raise
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise CheckpointError("the file holds no tuned settings", got=f"{path}: {error!r}") from None
