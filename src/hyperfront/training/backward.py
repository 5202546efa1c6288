"""``backward``: a step in your own training loop, instead of ``loss.backward()``."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch.nn.parallel import DistributedDataParallel

from hyperfront.errors import HyperfrontError, LossError
from hyperfront.errors.signatures import checked_except
from hyperfront.model import ParetoModel
from hyperfront.model.expected import expect_model
from hyperfront.model.substitution import Network
from hyperfront.problem import scalar
from hyperfront.problem.units import Units
from hyperfront.solvers import Solver, Status
from hyperfront.storage.batches import Batch
from hyperfront.training import ranks
from hyperfront.training.reach import outside, refuse_several_ranks, refuse_unreached
from hyperfront.training.refusals import check_losses, check_solver
from hyperfront.training.step import Step, StepResult

SHIFT = "return {name} minus its smallest possible value, or give a scalarization that value as its ideal="


@checked_except("model")
def backward(
    model: ParetoModel | DistributedDataParallel,
    rays: Tensor | Sequence,
    losses: Callable[[Network], Tensor | Sequence[Tensor]],
    *,
    solver: Solver,
    scale: float | Tensor = 1.0,
) -> StepResult:
    """Put the gradient of one step into ``.grad`` of the model's parameters: ``loss.backward()`` for your own loop.

    ``losses(network)`` returns the ``m`` losses of one network, which is called like your module. A loss that the
    solver cannot use is an error; ``status`` in the result says where it fell back.

    ``scale`` multiplies the gradient. With ``scale=1 / k``, calls on ``k`` micro-batches of equal size, at the same
    rays, add up to one call on the whole batch, for a solver whose weights follow from the ray alone
    (:attr:`~hyperfront.solvers.Solver.fixed_weights`, such as ``LS``). It is an error for others.

    Trainable tensors outside of the model that the losses depend on, such as an encoder before it or learned weights of
    the losses, get the gradient of the weighted losses, as ``loss.backward()`` would give them.

    In a job of several processes (``torch.distributed``), each with its own rows, losses and gradients are averaged
    over the ranks before the solver sees them, so that all ranks make the same update; ``model`` may be wrapped in
    ``DistributedDataParallel``. All ranks end with the module's buffers of rank 0, as ``DistributedDataParallel`` has
    them at its next call, unless it has ``broadcast_buffers=False``.

    Inside ``torch.autocast`` only the losses run under autocast.

    >>> import hyperfront as hf
    >>> model = hf.wrap(torch.nn.Linear(1, 1), ["small", "large"])
    >>> x = torch.ones(4, 1)
    >>> losses = lambda net: (net(x).square().mean(), (net(x) - 1).square().mean())
    >>> result = backward(model, [0.5, 0.5], losses, solver=hf.LS())
    >>> result.losses.shape
    torch.Size([1, 2])
    """

    follow = not isinstance(model, DistributedDataParallel) or model.broadcast_buffers
    model = model.module if isinstance(model, DistributedDataParallel) else model
    model = expect_model(model, "backward")
    rays, kind = model.check(rays), model.device.type  # not aligned: the solver sees the losses of this batch
    own: Any = OwnLosses(model, losses)
    check_scale(check_solver(solver), scale)
    step = Step(model, own, solver)
    step.scale = scale
    step.ranks = ranks.world_size()
    step.watch = partial(_watched, model, step.ranks)
    if step.ranks > 1:
        ranks.check_same(rays)
    if torch.is_autocast_enabled(kind):  # for the target and its losses
        step.dtype = torch.get_autocast_dtype(kind)
    with torch.autocast(kind, enabled=False):
        result = step(rays, ())
    if step.ranks > 1 and follow:
        shared = model.target.shared()
        ranks.follow_first(shared[spec.name] for spec in model.target.tensors if spec.role == "buffer")
    model.record["convention"] = solver.convention
    if (result.status == Status.INVALID).any():
        check_losses(result.losses, model.objectives, solver, where="in this step", shift=SHIFT)
        raise LossError("the gradients of the objectives are not finite")
    return result


@dataclass(frozen=True)
class OwnLosses:
    """Adapts the user's function of the network to the interface of a problem."""

    model: ParetoModel
    losses: Callable[[Network], Tensor | Sequence[Tensor]]
    has_data = False

    @property
    def units(self) -> Units:
        return Units.of(self.model.objectives, None, None, ())

    def each_loss(self, network: Network, batch: Batch) -> tuple[Tensor, ...]:
        returned, names = self.losses(network), self.model.objectives
        several = isinstance(returned, Iterable) and getattr(returned, "ndim", 1)
        found: list[Any] = list(returned) if several else [returned]
        if len(found) != len(names):
            raise LossError(
                "the losses do not fit the objectives",
                got=f"{len(found)} losses",
                expected=f"{len(names)}, for {', '.join(names)}",
            )
        return tuple(scalar(name, value) for name, value in zip(names, found))


def _watched(model: ParetoModel, size: int, losses: Sequence[Tensor], theta: Tensor) -> list[Tensor]:
    """Find the tensors outside of the model that get a gradient, and refuse losses that no ray can move."""
    found = outside(model, losses, theta)
    refuse_unreached(model.objectives, losses, theta)
    if size > 1:
        refuse_several_ranks(found)
    return found


def check_scale(solver: Solver, scale: float | Tensor) -> None:
    """Raise an error for a scale that is no positive number, or that the solver does not support."""
    tensor = isinstance(scale, Tensor)  # its value is not read: that would stop a GPU
    if not (scale.numel() == 1 if tensor else 0 < scale < math.inf):
        raise HyperfrontError("the scale is no positive number", got=scale, expected="for example 1 / micro_batches")
    if (tensor or scale != 1) and not solver.fixed_weights:
        raise HyperfrontError(
            f"gradients of {type(solver).__name__} at micro-batches do not add up to the gradient at the whole batch",
            got=f"scale = {scale}, and weights that depend on the losses or gradients of the batch",
            expected="scale = 1, or a solver whose weights follow from the ray alone, such as LS()",
            fix="one call for the whole batch, whose losses recompute each micro-batch in the backward pass "
            "(torch.utils.checkpoint; docs/loops.md shows it)",
        )
