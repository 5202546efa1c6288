"""A ``LightningModule`` whose step is :func:`hyperfront.backward` and whose validation is the front."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import torch
from lightning.pytorch import LightningModule
from torch import Tensor, nn
from torch.optim import Adam, Optimizer

from hyperfront.errors import HyperfrontError
from hyperfront.front import Front
from hyperfront.model import ParetoModel
from hyperfront.model.substitution import Network
from hyperfront.preferences import Dirichlet, Preferences, layout
from hyperfront.problem import Problem
from hyperfront.solvers import EPO, Solver, Stateful
from hyperfront.storage.batches import Batch
from hyperfront.training.backward import backward
from hyperfront.training.epochs import seeded
from hyperfront.training.job import record_of
from hyperfront.training.refusals import check_solver
from hyperfront.training.validation import calibrate, validate

PRECISIONS = ("32-true", "bf16-mixed")
"""The precisions of a Lightning trainer in which gradients need no further scaling."""


class ParetoModule(LightningModule):
    """``model`` trained on ``problem`` by a Lightning trainer.

    Training batches come from ``problem``, or from the loader that ``trainer.fit`` is given. At each step, ``solver``
    and ``preferences`` decide as in :func:`hyperfront.fit`, and every ray sees the whole batch. Each validation
    measures the front on ``problem.val`` and logs its ``hypervolume`` and ``uniformity``, so that
    ``ModelCheckpoint(monitor="hypervolume", mode="max")`` keeps the best model. Lightning's checkpoints hold all that a
    run needs to continue. ``optimizer`` makes an optimizer from the parameters: Adam by default.

    >>> import hyperfront as hf
    >>> from lightning.pytorch import Trainer
    >>> x = torch.randn(64, 3)
    >>> problem = hf.supervised((x, x.sum(1, keepdim=True)), losses={
    ...     "error": lambda output, batch: (output - batch[1]).square().mean(),
    ...     "size": lambda output, batch: output.square().mean()})
    >>> module = ParetoModule(hf.wrap(nn.Linear(3, 1), problem.objectives), problem, batch_size=32)
    >>> module.model is module.model.train()
    True
    """

    front: Front | None = None
    """The validation front that was measured last."""

    def __init__(
        self,
        model: ParetoModel,
        problem: Problem,
        *,
        solver: Solver | None = None,
        preferences: Preferences | None = None,
        rays_per_step: int = 1,
        batch_size: int = 256,
        optimizer: Callable[[Iterable[nn.Parameter]], Optimizer] | None = None,
        seed: int = 0,
        validation_rays: int | Tensor | Sequence = 25,
    ):
        super().__init__()
        problem.check_model(model)
        self.automatic_optimization = False  # hyperfront.backward computes the gradients
        self.model, self.problem, self.solver = model, problem, check_solver(solver or EPO())
        self.preferences, self.rays_per_step = preferences or Dirichlet(), rays_per_step
        self.batch_size, self.seed, self.make_optimizer = batch_size, seed, optimizer or Adam
        self.rays = layout(validation_rays, model.m, model.objectives)
        model.record = record_of(problem, self.solver, seed)

    def setup(self, stage: str) -> None:
        """Raise an error for settings of the trainer that would train wrongly, or fail later."""
        self.problem.train.source.steps(self.batch_size)
        if self.trainer.world_size > 1:
            raise HyperfrontError(
                "ParetoModule does not share its data among processes",
                got=f"a trainer of {self.trainer.world_size} processes",
                fix="Trainer(devices=1)",
            )
        if self.trainer.precision not in PRECISIONS:
            raise HyperfrontError(
                "unknown precision", got=self.trainer.precision, expected="one of " + ", ".join(PRECISIONS)
            )

    def configure_optimizers(self) -> Optimizer:
        return self.make_optimizer(self.model.parameters())

    def training_step(self, batch: Batch, index: int) -> None:
        def losses(network: Network) -> tuple[Tensor, ...]:
            return self.problem.each_loss(network, batch)

        optimizer: Any = self.optimizers()
        optimizer.zero_grad()
        generator = seeded(self.seed, self.current_epoch, index)
        rays = self.preferences.sample(self.rays_per_step, self.model.m, generator)
        result = backward(self.model, rays, losses, solver=self.solver)
        optimizer.step()
        named = dict(zip(self.model.objectives, result.losses.mean(0)))
        self.log_dict({f"loss/{name}": value for name, value in named.items()}, prog_bar=True, batch_size=1)

    # ---- data ------------------------------------------------------------------------------------------------

    def train_dataloader(self) -> Iterable[Batch]:
        """The problem's batches, in the order that seed and epoch decide."""
        source = self.problem.train.source

        def batches() -> Iterator[Batch]:
            return source.epoch(self.batch_size, seeded(self.seed, self.current_epoch), self.device, 0)

        return _Batches(source.steps(self.batch_size), batches)

    def val_dataloader(self) -> Iterable[Any]:
        """Return one item for each validation, which measures the whole split."""
        return _Batches(1, lambda: iter([_WHOLE])) if "val" in self.problem.sources else []

    # ---- the front -------------------------------------------------------------------------------------------

    def validation_step(self, batch: Any, index: int) -> None:
        if batch is not _WHOLE:
            raise HyperfrontError(
                "the front is measured on the validation data of the problem",
                got="a validation loader of the trainer's",
                fix="hyperfront.supervised(train, val=loader, ...), and trainer.fit without val_dataloaders",
            )

    def on_validation_epoch_end(self) -> None:
        with torch.inference_mode(False):  # what is kept must be usable in training
            self.front, summary = validate(self.model, self.problem, self.rays, self.batch_size)
        for name in ("hypervolume", "uniformity"):
            if summary[name] is not None:
                self.log(name, summary[name], prog_bar=True, batch_size=1)

    def on_train_end(self) -> None:
        calibrate(self.model, self.problem, self.batch_size)

    # ---- checkpoints -----------------------------------------------------------------------------------------

    def on_save_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        remembered = self.solver.state() if isinstance(self.solver, Stateful) else {}
        checkpoint["hyperfront"] = {"model": self.model.document(), "solver": remembered}

    def on_load_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        self.model.record = checkpoint["hyperfront"]["model"]["record"]
        if isinstance(self.solver, Stateful):
            self.solver.load(checkpoint["hyperfront"]["solver"])


_WHOLE = "the whole split"


class _Batches:
    """As many batches as an epoch has, made when they are iterated over."""

    def __init__(self, length: int, batches: Callable[[], Iterator[Any]]):
        self.length, self.batches = length, batches

    def __len__(self) -> int:
        return self.length

    def __iter__(self) -> Iterator[Any]:
        return self.batches()
