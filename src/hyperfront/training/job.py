"""The job of a run: its parts, checked before the first step."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from torch import Tensor

from hyperfront.errors import CheckpointError, ProblemError
from hyperfront.front import Front, alignment
from hyperfront.model import ParetoModel
from hyperfront.preferences import Preferences
from hyperfront.problem import Problem
from hyperfront.problem.sources import LoaderSource
from hyperfront.solvers import Solver
from hyperfront.storage import files
from hyperfront.storage.provenance import describe, refuse_difference, units
from hyperfront.training.callbacks import Callback
from hyperfront.training.runs import RunFolder, identity_of
from hyperfront.training.settings import Settings
from hyperfront.training.team import Team


def record_of(problem: Problem, solver: Solver, seed: int) -> dict[str, Any]:
    """Describe the training of a model for its checkpoint: rays have no meaning without it."""
    return {
        **describe(problem.identity or {}),
        "solver": type(solver).__name__,
        "convention": solver.convention,
        "units": units(problem),
        "seed": seed,
    }


@dataclass(frozen=True, eq=False)
class Job:
    """The arguments of :func:`hyperfront.fit`, with their defaults filled in."""

    model: ParetoModel
    problem: Problem
    settings: Settings
    solver: Solver
    preferences: Preferences
    rays: Tensor
    """Validation rays ``[R, m]``."""
    align: bool
    criterion: Callable[[Front], float] | None
    folder: RunFolder | None
    callbacks: Sequence[Callback]
    keep: int | Literal["all"]
    team: Team

    @property
    def validates(self) -> bool:
        """Whether there is a validation split."""
        return "val" in self.problem.sources

    @property
    def selects(self) -> bool:
        """Whether validation data select the weights."""
        return self.problem.has_data and self.validates

    def check(self) -> None:
        """Raise an error for parts that do not fit together, and warn where nothing can be selected."""
        self.problem.check_model(self.model)
        if self.problem.train.source.steps(self.settings.batch_size) < 1:
            raise ProblemError("the training data gives no full batch", fix="lower the batch size")
        if self.settings.accumulate > 1 and not (self.problem.has_data and self.problem.lesson is None):
            raise ProblemError("only the batches of a problem with data, without a teacher, have micro-batches")
        if self.settings.freeze_after is not None and not self.model.target.trained:
            raise ProblemError(
                "freeze_after has nothing to freeze: no parameter of the module is trained directly",
                fix='hyperfront.wrap(..., hypernet="low_rank", base="train"), or leave freeze_after out',
            )
        measurable = self.problem.reference is not None or self.criterion is not None
        if self.settings.patience is not None and not self.selects:
            raise ProblemError("patience needs validation data: it waits for a better front on them")
        if self.settings.patience is not None and not measurable:
            raise ProblemError(
                "patience needs a reference point: it waits for a better hypervolume",
                fix="supervised(..., reference=(...)), a number above the losses you would accept for each objective",
            )
        if self.selects and not measurable:
            warnings.warn("without a reference point there is no hypervolume: the last weights are kept", stacklevel=4)
        if self.align:
            alignment.check_convention(self.solver.convention)
            self.problem.split("val")

    def record(self) -> dict[str, Any]:
        """Describe the training for the checkpoint."""
        return record_of(self.problem, self.solver, self.settings.seed)

    def config(self) -> dict[str, Any]:
        """Return the resolved configuration, as ``config.json`` stores it."""
        source = self.problem.train.source
        return {
            **self.model.document(),
            **{key: value for key, value in self._settings().items() if key != "name"},
            "solver": describe(self.solver),
            "preferences": describe(self.preferences),
            "align": self.align,
            "reference": describe(self.problem.reference),
            "steps_per_epoch": source.steps(self.settings.batch_size),
            **({"batch_size": source.batch_size} if isinstance(source, LoaderSource) else {}),
            "validation_rays": describe(self.rays),
            **({} if self.criterion is None else {"criterion": describe(self.criterion)}),
            **({} if self.problem.lesson is None else {"lesson": self.problem.lesson.describe()}),
        }

    def _settings(self) -> dict[str, Any]:
        """Describe the settings, without those that save memory where they are off, as in older files."""
        found, off = describe(self.settings), {"accumulate": 1, "checkpoint_activations": False, "freeze_after": None}
        return {key: value for key, value in found.items() if key not in off or value != off[key]}

    def identity(self) -> str:
        """Return the identity of the run: a checksum of the configuration, stored or about to be stored."""
        stored = self.folder.read_config() if self.folder and self.folder.config.exists() else None
        return identity_of(self.config() if stored is None else stored)

    def check_folder(self, resume: bool) -> None:
        """Raise an error if the folder holds a run, unless this job resumes it with the same configuration."""
        if self.folder is None or not self.folder.config.exists():
            return
        if not resume:
            raise CheckpointError(
                "the folder already holds a run", got=self.folder.path, fix="resume=True, or another folder for out="
            )
        config = self.config()
        refuse_difference(
            self._stored_config(self.folder, config),
            config,
            what="the run in this folder has another configuration",
            fix="resume with the same settings, or start a new run in another folder",
        )

    def _stored_config(self, folder: RunFolder, config: dict[str, Any]) -> dict[str, Any]:
        """Read the configuration in the folder. A damaged one becomes ``config``, if a checkpoint confirms it."""
        try:
            stored = folder.read_config()
            if identity_of(stored) == identity_of(config):
                return stored
            damage = None
        except CheckpointError as error:
            stored, damage = {}, error
        if folder.identity() == identity_of(config):
            what = damage.what if damage else "the configuration differs from that of the checkpoint"
            warnings.warn(f"{what}: {folder.config} is written again", stacklevel=4)
            files.write_json(folder.config, config)
            return folder.read_config()
        if damage:
            raise damage
        return stored
