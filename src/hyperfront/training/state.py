"""The state of a training run, as one checkpoint file: enough to continue exactly where it stopped."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from hyperfront.errors import CheckpointError
from hyperfront.model import ParetoModel
from hyperfront.solvers import Stateful, Status
from hyperfront.storage import checkpoint, trees
from hyperfront.training.runs import model_tensors
from hyperfront.training.step import Step

BY_DEVICE = {"capturable", "foreach", "fused"}
"""Options of an optimizer that depend on its device; a run may continue on another device."""


@dataclass
class Position:
    """The position of a run: its next step is ``step`` of ``epoch``, both from 0."""

    epoch: int = 0
    step: int = 0
    best: float | None = None
    """The largest validation hypervolume, or criterion, so far."""
    best_epoch: int = 0
    """The number of epochs before the best weights; 0 before the first validation."""
    stale: int = 0
    """The number of validations since the best weights."""
    seconds: float = 0.0
    """Seconds spent in the current epoch."""
    sums: Tensor = field(default_factory=lambda: torch.zeros(0))
    """Sums of the losses over the present epoch, ``[m]``."""
    statuses: Tensor = field(default_factory=lambda: torch.zeros(len(Status), dtype=torch.long))
    """The number of rays of the present epoch with each :class:`Status`."""

    def begin(self, epoch: int) -> int:
        """Move to the start of ``epoch``."""
        self.epoch, self.step, self.seconds = epoch, 0, 0.0
        self.sums, self.statuses = torch.zeros_like(self.sums), torch.zeros_like(self.statuses)
        return epoch

    @property
    def at_best(self) -> bool:
        """Whether the present weights are the best ones."""
        return 0 < self.best_epoch == self.epoch and self.step == 0


class TrainingState:
    """Model, optimizer, schedule, running mean, state of the solver, random numbers and position."""

    def __init__(
        self,
        model: ParetoModel,
        step: Step,
        optimizer: torch.optim.Optimizer,
        schedule: torch.optim.lr_scheduler.LRScheduler,
    ):
        self.model, self.step, self.optimizer, self.schedule = model, step, optimizer, schedule
        self.loader_generator: torch.Generator | None = getattr(step.problem.train.source, "generator", None)
        self.position = Position(sums=torch.zeros(model.m, dtype=torch.float64))
        self.best: dict[str, Tensor] | None = {}
        """The best weights so far; empty before the first validation, None if a file of schema 2 does not hold them."""
        self.solver = step.solver if isinstance(step.solver, Stateful) else None
        if self.solver:
            self.solver.load({})  # forget an earlier run

    def save(self, path: Path, identity: str, *, previous: Path) -> None:
        """Write to ``path`` as a part of the run ``identity``, and keep the old file as ``previous``."""
        tensors = {f"model.{name}": tensor for name, tensor in self.model.state_dict().items()}
        extra: dict[str, Tensor] = {}
        random = {"cpu": torch.get_rng_state()}
        if self.model.device.type == "cuda":
            random["cuda"] = torch.cuda.get_rng_state(self.model.device)
        if self.loader_generator is not None:
            random["loader"] = self.loader_generator.get_state()
        state = {
            "optimizer": self.optimizer.state_dict(),
            "schedule": self.schedule.state_dict(),
            "mean": self.step.mean,
            "solver": self.solver.state() if self.solver else {},
            "random": random,
            "position": vars(self.position),
            "best": {} if self.position.at_best else self.best,
        }
        tree = trees.pack(state, "training", extra)
        run = {"identity": identity, "epoch": self.position.epoch, "step": self.position.step}
        document = {"model": self.model.document(), "training": tree, "run": run}
        checkpoint.write(path, tensors | extra, document, previous=previous)

    def load(self, path: Path, identity: str | None = None) -> None:
        """Load the state from a file, which must belong to the run ``identity``, if that is given."""
        tensors, document = checkpoint.read(path)
        if "training" not in document:
            raise CheckpointError("the checkpoint holds a model but no training state", got=path)
        found = document.get("run", {}).get("identity", identity)  # schema 2 has none
        if identity is not None and found != identity:
            raise CheckpointError(
                "the checkpoint is of another run",
                got=f"{path} of the run {found}",
                expected=f"the run {identity}, as {path.with_name('config.json')} says",
                fix="put the file of this run there, or remove it to continue from the previous one",
            )
        checkpoint.load_into(self.model, model_tensors(tensors))
        try:
            state = trees.unpack(document["training"], tensors)
            self._restore(state)
            stored = state.get("best")
            self.best = None if stored is None else {name: t.to(self.model.device) for name, t in stored.items()}
            if self.position.at_best:
                self.best = {name: tensor.detach().clone() for name, tensor in self.model.state_dict().items()}
        except (LookupError, TypeError, ValueError, AttributeError, RuntimeError) as error:
            raise CheckpointError("the state of the training is damaged", got=f"{path}: {error!r}") from None

    def _restore(self, state: dict[str, Any]) -> None:
        for stored, own in zip(state["optimizer"]["param_groups"], self.optimizer.param_groups):
            stored.update({key: own[key] for key in BY_DEVICE & own.keys()})
        self.optimizer.load_state_dict(state["optimizer"])
        self.schedule.load_state_dict(state["schedule"])
        self.step.mean = state["mean"].to(self.model.device)
        if self.solver:
            self.solver.load(state["solver"])
        self.position = Position(**state["position"])
        torch.set_rng_state(state["random"]["cpu"])
        if "cuda" in state["random"] and self.model.device.type == "cuda":
            torch.cuda.set_rng_state(state["random"]["cuda"], self.model.device)
        if "loader" in state["random"] and self.loader_generator is not None:
            self.loader_generator.set_state(state["random"]["loader"])
