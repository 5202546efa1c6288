"""A case under a feature before hyperfront comes in: the module, what it is called on, its losses."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from tests.oracle.case import Case, call
from tests.oracle.features import Feature

SINGLE, BFLOAT16 = 1e-4, 3e-2
"""Relative errors that are rounding in float32, and under bf16 autocast."""


class Checkpointed(nn.Module):
    """The module, which computes its activations again in the backward pass."""

    def __init__(self, module: nn.Module):
        super().__init__()
        self.module = module

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        return checkpoint(self.module, *args, use_reentrant=False, **kwargs)


class Setup:
    """Makes the module of a case as a feature wants it, and takes its losses."""

    def __init__(self, case: Case, feature: Feature, device: str):
        self.case, self.feature, self.device = case, feature, device
        self.dtype = case.dtype if feature.dtype == torch.float64 else feature.dtype
        self.tolerance = case.precision if self.dtype == torch.float64 else SINGLE
        if feature.autocast:
            self.tolerance = BFLOAT16
        self.x = case.batch(self.dtype, device)

    def converted(self, module: Any) -> Any:
        """In float64, if the comparison is: a module is otherwise left in the precisions that it has."""
        return module.double() if self.dtype == torch.float64 else module

    def module(self) -> nn.Module:
        """The module, made anew with the same numbers, in training mode."""
        made = self.converted(self.case.build(self.dtype, self.device))
        made = Checkpointed(made) if self.feature.checkpointed else made
        made.train()  # which need not return the module
        return made

    def run(self, network: Callable[..., Any]) -> Any:
        """The output of a plain module, or of what hyperfront hands out in its place."""
        with torch.autocast(self.device, torch.bfloat16) if self.feature.autocast else nullcontext():
            return call(network, self.x)

    def losses(self, network: Callable[..., Any]) -> tuple[Tensor, ...]:
        """The losses of one network."""
        return tuple(loss.to(self.dtype) for loss in self.case.losses(self.run(network)))

    def plain_failure(self) -> str | None:
        """The error of the module itself when it is driven in this way without hyperfront; None if there is none."""
        try:
            plain = self.module()
            wanted = [p for p in plain.parameters() if p.requires_grad]
            torch.autograd.grad(self.losses(plain)[0], wanted, materialize_grads=True)
        except Exception as error:  # all that a module, or torch, may raise
            return f"{type(error).__name__}: {error}"
        return None
