"""Algorithm 1 of the paper: one training step, for any solver.

    theta   = hypernet(rays)                          [R, n], with graph
    losses  = losses of the target at theta           [R, m]
    grads   = d losses_j / d theta                    only where the solver needs their Gram matrix
    weights = solver(losses, rays, gram)              [R, m]
    theta.backward(sum_j weights_j grads_j / R)       one backward pass through the hypernetwork

So EPO costs ``m`` backward passes through the *target* and one through the hypernetwork, never ``m`` of those.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from hyperfront.errors import HyperfrontError, LossError
from hyperfront.kernels import on_gpu
from hyperfront.kernels.factors import Factors
from hyperfront.model import ParetoModel
from hyperfront.model.hypernets import inner_products
from hyperfront.model.target import Network
from hyperfront.problem import Problem, scalar
from hyperfront.solvers import Solver, Status
from hyperfront.storage import batches
from hyperfront.storage.batches import Batch

FLOOR = 1e-8
"""A loss below this share of its running mean is raised to it, where the solver needs positive losses."""
MEMORY = 0.01
"""The share of a step in that mean."""

SMALL = 2**26
"""Gradients of the objectives that have no more entries than this, all together, may be computed in one pass."""


class StepResult(NamedTuple):
    """What a step found: ``losses [R, m]``, ``weights [R, m]``, ``status`` uint8 ``[R]``."""

    losses: Tensor
    weights: Tensor
    status: Tensor


def backward(
    model: ParetoModel,
    rays: Tensor | Sequence,
    losses: Callable[[Network], Tensor | Sequence[Tensor]],
    *,
    solver: Solver,
) -> StepResult:
    """Put the gradient of one step into ``.grad`` of the model's parameters: ``loss.backward()`` for your own loop.

    ``losses(network)`` returns the ``m`` losses of one network, which is called like your module. A loss that the
    solver cannot use is an error; ``status`` in the result says where it fell back.

    >>> import hyperfront as hf
    >>> model = hf.wrap(torch.nn.Linear(1, 1), ["small", "large"])
    >>> x = torch.ones(4, 1)
    >>> losses = lambda net: (net(x).square().mean(), (net(x) - 1).square().mean())
    >>> result = backward(model, [0.5, 0.5], losses, solver=hf.LS())
    >>> result.losses.shape
    torch.Size([1, 2])
    """

    def each_loss(network: Network, _: Batch) -> tuple[Tensor, ...]:
        found = list(losses(network))
        if len(found) != model.m:
            raise LossError(
                "the losses do not fit the objectives",
                got=f"{len(found)} losses",
                expected=f"{model.m}, for {', '.join(model.objectives)}",
            )
        return tuple(scalar(name, value) for name, value in zip(model.objectives, found))

    check_solver(solver)
    rays = model.check(rays)  # not aligned: the solver sees the losses of this batch
    theta = model.hypernet(rays)
    leaf = theta.detach().requires_grad_()
    columns = model.target.map(each_loss, leaf, rays, (), split=False)
    result = _descend(model, rays, theta, leaf, columns, solver=solver)
    model.record["convention"] = solver.convention
    if (result.status == Status.INVALID).any():
        check_losses(result.losses, model.objectives, solver, where="in this step")
        raise LossError("the gradients of the objectives are not finite")
    return result


class Step:
    """The step of a problem: draws nothing, updates nothing but ``.grad`` and its running mean of the losses.

    A batch is split among the rays of the step, or with ``share_batch`` seen by all of them.
    """

    def __init__(self, model: ParetoModel, problem: Problem, solver: Solver, *, share_batch: bool = False):
        self.model, self.problem, self.solver = model, problem, solver
        self.split = problem.has_data and not share_batch
        self.losses: Callable[..., Sequence[Tensor]] = functools.partial(model.target.map, problem.each_loss)
        """The ``m`` losses ``[R]`` at ``theta [R, n]``, rays and a batch, ``split`` among them or not; an engine may
        put its compiled version here."""
        self.mean = torch.zeros(problem.m, dtype=torch.float64, device=model.device)
        """Running mean ``[m]`` of the losses, the scale for :data:`FLOOR`; 0 before the first step."""

    def __call__(self, rays: Tensor, batch: Batch, factors: Factors | None = None) -> StepResult:
        """The gradient of one step; of layers in ``factors``, if an optimizer has them, as factors."""
        split = self.split and len(rays) > 1  # one ray sees it all
        batch = batches.split(batch, len(rays)) if split else batch
        theta = self.model.hypernet.factored(rays, factors)
        leaf = theta.detach().requires_grad_()
        columns = self.losses(leaf, rays, batch, split=split)
        result = _descend(self.model, rays, theta, leaf, columns, solver=self.solver, mean=self.mean)
        if self.solver.positive:
            self._average(result.losses)
        return result

    def _average(self, losses: Tensor) -> None:
        """Move the running mean, in place: a graph holds on to it."""
        if on_gpu(losses, self.mean):
            from hyperfront.kernels.gpu.running_mean import running_mean_on_gpu  # needs Triton

            return running_mean_on_gpu(losses, self.mean, MEMORY)
        self.mean.lerp_(losses.double().mean(0), torch.where(self.mean > 0, MEMORY, 1.0).double())


def _descend(
    model: ParetoModel,
    rays: Tensor,
    theta: Tensor,
    leaf: Tensor,
    columns: Sequence[Tensor],
    *,
    solver: Solver,
    mean: Tensor | None = None,
) -> StepResult:
    """From the losses, ``m`` times ``[R]``, of the networks at ``leaf`` to the gradients of all parameters."""
    losses = torch.stack(list(columns), dim=1)
    shared = [p for p in model.target.parameters() if p.requires_grad]  # trained directly, the same for all rays
    wanted = [leaf, *shared]

    if not solver.needs_gram:
        weights, status = _solve(solver, losses.detach(), rays, None, mean)
        each = weights if len(rays) == 1 else weights / len(rays)
        gradients = torch.autograd.grad(losses, wanted, each, materialize_grads=True)
    elif len(rays) == 1:  # the m passes give the gradients of the shared parameters too
        passes = _passes(model, columns, wanted, keep=False)
        weights, status = _solve(solver, losses.detach(), rays, _gram(model, solver, rays, passes[0]), mean)
        gradients = [_combine(weights[0], passes.pop(0)) for _ in wanted]  # whose m gradients go then
    else:  # they give those of each ray's theta, since no loss depends on another's; the shared ones need a pass more
        rows = _passes(model, columns, [leaf], keep=bool(shared))[0]  # m times [R, n]
        weights, status = _solve(solver, losses.detach(), rays, _gram(model, solver, rays, rows), mean)
        gradients = [_combine(weights.T / len(rays), rows)]
        if shared:
            gradients += torch.autograd.grad(losses, shared, weights / len(rays), materialize_grads=True)

    theta.backward(gradients[0])
    for parameter, gradient in zip(shared, gradients[1:]):
        parameter.grad = gradient if parameter.grad is None else parameter.grad + gradient
    return StepResult(losses.detach(), weights, status)


def _passes(model: ParetoModel, columns: Sequence[Tensor], wanted: list[Tensor], *, keep: bool) -> list[Any]:
    """For each wanted tensor its ``m`` gradients, one for every objective, summed over rays: a tensor or a list."""
    m = len(columns)
    if model.target.stacking.vectorizes(wanted[0].device) and m * wanted[0].numel() <= SMALL:
        losses = torch.stack(list(columns))
        cotangents = _identity(m, losses.dtype, losses.device)[..., None].expand(m, *losses.shape)

        def back(g: Tensor) -> tuple[Tensor, ...]:
            return torch.autograd.grad(losses, wanted, g, retain_graph=True, materialize_grads=True)

        return list(torch.vmap(back)(cotangents))
    found = []
    for j, column in enumerate(columns, 1):
        if column.requires_grad:
            keep_graph, ones = keep or j < m, torch.ones_like(column)
            found.append(torch.autograd.grad(column, wanted, ones, retain_graph=keep_graph, materialize_grads=True))
        else:  # a gap between groups of which the batch has none
            found.append(tuple(torch.zeros_like(tensor) for tensor in wanted))
    return [list(each) for each in zip(*found)]


@functools.cache
def _identity(m: int, dtype: torch.dtype, device: torch.device) -> Tensor:
    return torch.eye(m, dtype=dtype, device=device)


def _combine(weights: Tensor, rows: Sequence[Tensor]) -> Tensor:
    """``sum_j weights_j rows_j``, for ``weights [m]`` and rows of any shape, or ``[m, R]`` and rows ``[R, n]``."""
    if isinstance(rows, Tensor):
        return torch.einsum("jr,jrn->rn", weights, rows) if weights.ndim > 1 else torch.tensordot(weights, rows, 1)
    weights = weights[..., None] if weights.ndim > 1 else weights
    total = weights[0] * rows[0]  # a copy, since autograd may hand out the same memory twice
    for weight, row in zip(weights[1:], rows[1:]):
        total.addcmul_(weight, row)  # one at a time: of a large target, stacked copies would not fit
    return total


def _gram(model: ParetoModel, solver: Solver, rays: Tensor, rows: Sequence[Tensor]) -> Tensor:
    """Inner products ``[R, m, m]`` of the objectives' gradients, ``m`` times ``[R, n]``, in the solver's space."""
    if solver.space == "hypernetwork":
        return model.hypernet.gram(rays, torch.stack(list(rows), dim=1))
    return inner_products(rows)


def _solve(
    solver: Solver, losses: Tensor, rays: Tensor, gram: Tensor | None, mean: Tensor | None
) -> tuple[Tensor, Tensor]:
    """The solver's weights, after lifting losses near zero where it needs positive ones."""
    seen = losses.device.type == "cpu" and mean is not None and not (losses < FLOOR * mean).any()  # a GPU would stop
    if solver.positive and mean is not None and not seen:
        weights, status = solver.floored(losses, rays, gram, FLOOR * mean)
    else:
        weights, status = solver(losses, rays, gram)
    return weights.to(losses.dtype), status


def check_solver(solver: Solver) -> Solver:
    """An error for a name or a class where a solver should be."""
    if isinstance(solver, Solver):
        return solver
    raise HyperfrontError("this is no solver", got=repr(solver), expected="an instance, such as hyperfront.EPO()")


def check_losses(losses: Tensor, objectives: tuple[str, ...], solver: Solver, *, where: str) -> None:
    """An error that names the objective, if a loss is one that the solver cannot work with."""
    faults = {"NaN": losses.isnan(), "infinite": losses.isinf()}
    if solver.positive:
        faults["negative"] = losses < 0
    for fault, mask in faults.items():
        if mask.any():
            row, column = (int(i) for i in mask.nonzero()[0])
            negative = fault == "negative"
            raise LossError(
                f"the objective {objectives[column]!r} is {fault} {where}",
                got=f"{losses[row, column].item():g}",
                expected=f"a finite number{' >= 0, as ' + type(solver).__name__ + ' needs' if solver.positive else ''}",
                fix=f"shift it: supervised(..., ideal={{{objectives[column]!r}: its smallest possible value}})"
                if negative
                else "lower the learning rate, check the data for NaN, or clip inside the loss",
            )
