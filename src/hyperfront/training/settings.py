"""The settings of a run: their checks, and the optimizer and schedule that they choose."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import get_args

import torch
from torch import nn
from torch.optim import Optimizer
from torch.optim.lr_scheduler import LambdaLR, LRScheduler, ReduceLROnPlateau

from hyperfront.errors import HyperfrontError, check_choice, check_flag, check_number
from hyperfront.training.adam import Adam
from hyperfront.training.handed import check_made, check_makers
from hyperfront.training.precision import Precision


@dataclass(frozen=True)
class Settings:
    """The settings of a run; :func:`hyperfront.fit` explains each."""

    epochs: int
    rays_per_step: int
    batch_size: int
    share_batch: bool
    optimizer: Callable[[Iterable[nn.Parameter]], Optimizer] | None
    lr: float
    schedule: str | Callable[[Optimizer], LRScheduler]
    warmup: int
    seed: int
    deterministic: bool
    precision: Precision | None
    validate_every: int
    patience: int | None
    accumulate: int = 1
    checkpoint_activations: bool = False
    freeze_after: float | None = None

    def __post_init__(self) -> None:
        for name in ("epochs", "rays_per_step", "batch_size", "validate_every", "accumulate"):
            check_number(name, getattr(self, name), 1, whole=True)
        if self.patience is not None:
            check_number("patience", self.patience, 1, whole=True)
        if self.freeze_after is not None:
            self._check_freezing(self.freeze_after)
        check_number("seed", self.seed, 0, 2**64 - 1, whole=True)
        check_number("warmup", self.warmup, 0, whole=True)
        check_number("lr", self.lr, 0)
        check_flag("share_batch", self.share_batch)
        check_flag("checkpoint_activations", self.checkpoint_activations)
        check_flag("deterministic", self.deterministic)
        if self.precision is not None:
            check_choice("precision", self.precision, get_args(Precision))
        check_makers(self.optimizer, self.schedule)
        if isinstance(self.schedule, str) and self.schedule not in ("cosine", "constant"):
            raise HyperfrontError(
                "unknown schedule", got=repr(self.schedule), expected="cosine, constant or a function"
            )

    def _check_freezing(self, share: float) -> None:
        check_number("freeze_after", share, 0, 1)
        if not 0 < round(share * self.epochs) < self.epochs:
            raise HyperfrontError(
                "freeze_after is a share of the epochs that leaves some before it and some after it",
                got=f"freeze_after = {share} of {self.epochs} epochs",
                expected="for example 0.8 of 30 epochs",
            )

    def frozen(self, epoch: int) -> bool:
        """Whether the parameters that all rays share rest in this epoch; the first one is 0."""
        return self.freeze_after is not None and epoch >= round(self.freeze_after * self.epochs)

    def make_optimizer(self, parameters: Iterable[nn.Parameter]) -> Optimizer:
        parameters = list(parameters)
        made = self.optimizer(parameters) if self.optimizer else self._adam(parameters)
        check_made(made, Optimizer, "optimizer")
        for group in made.param_groups if parameters[0].is_cuda else ():
            if "capturable" in group:
                group["capturable"] = True  # in every engine, so that all take the same steps
            elif type(made) is torch.optim.SGD and not group["differentiable"]:
                group.update(fused=True, foreach=False)  # only this variant reads its learning rate on the device
        if isinstance(made, torch.optim.LBFGS):
            raise HyperfrontError(
                "fit takes one step for each batch, but LBFGS evaluates the batch several times",
                fix="use another optimizer, or hyperfront.backward in your own closure",
            )
        return made

    def _adam(self, parameters: list[nn.Parameter]) -> Optimizer:
        """Make an Adam that updates all parameters in one pass: PyTorch's fused one on a CPU, ours on a GPU."""
        fused = all(p.device.type == "cpu" for p in parameters) and not any(p.is_complex() for p in parameters)
        return Adam(parameters, lr=self.lr, fused=fused or None)

    def make_schedule(self, optimizer: Optimizer, steps: int) -> LRScheduler:
        """Make the schedule for ``steps`` steps; it is stepped after every step."""
        if not isinstance(self.schedule, str):
            made = self.schedule(optimizer)
            check_made(made, LRScheduler, "schedule")
            if isinstance(made, ReduceLROnPlateau):
                raise HyperfrontError(
                    "schedules are stepped after every step, without a metric", got="ReduceLROnPlateau", fix="'cosine'"
                )
            return made

        def factor(step: int) -> float:
            ramp = min(1.0, (step + 1) / (self.warmup + 1))
            progress = min(1.0, max(0, step - self.warmup) / max(1, steps - self.warmup))
            return ramp * (0.5 * (1 + math.cos(math.pi * progress)) if self.schedule == "cosine" else 1.0)

        return LambdaLR(optimizer, factor)
