"""Algorithm 1 of the paper: one training step, for any solver.

    theta   = hypernet(rays)                          [R, n], with graph
    losses  = losses of the target at theta           [R, m]
    grads   = d losses_j / d theta                    only where the solver needs their Gram matrix
    weights = solver(losses, rays, gram)              [R, m]
    theta.backward(sum_j weights_j grads_j / R)       one backward pass through the hypernetwork

So EPO costs ``m`` backward passes through the *target* and one through the hypernetwork, never ``m`` of those.

The networks of several rays go through the target together (stacked by vmap, or side by side on a GPU) or one after the
other. In turn, a network's weights stay in the module until its backward passes are done, so that activation
checkpointing recomputes with the same weights; and each ray's activations are freed before the next ray, unless the
solver needs the losses of all rays first (``solver.joint``).
"""

from __future__ import annotations

import copy
import functools
import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field
from functools import partial
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from hyperfront.errors import HyperfrontError, LossError, TargetError
from hyperfront.kernels import on_gpu
from hyperfront.kernels.factors import Factors
from hyperfront.model import ParetoModel
from hyperfront.model.expected import expect_model
from hyperfront.model.hypernets import inner_products
from hyperfront.model.substitution import Network
from hyperfront.problem import Problem, scalar
from hyperfront.problem.units import Units
from hyperfront.solvers import Solver, Stateful, Status
from hyperfront.solvers.base import per_objective
from hyperfront.storage import nests
from hyperfront.storage.batches import Batch
from hyperfront.training import ranks
from hyperfront.training.ideals import Ideals
from hyperfront.training.precision import cast, widened

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

    In a job of several processes (``torch.distributed``), each with rows of its own, losses and gradients are averaged
    over the ranks before the solver sees them, so that all ranks make the same update; ``model`` may be wrapped in
    ``DistributedDataParallel``. Inside ``torch.autocast`` the losses run under autocast, and nothing else does.

    >>> import hyperfront as hf
    >>> model = hf.wrap(torch.nn.Linear(1, 1), ["small", "large"])
    >>> x = torch.ones(4, 1)
    >>> losses = lambda net: (net(x).square().mean(), (net(x) - 1).square().mean())
    >>> result = backward(model, [0.5, 0.5], losses, solver=hf.LS())
    >>> result.losses.shape
    torch.Size([1, 2])
    """

    model = model.module if isinstance(model, DistributedDataParallel) else model
    model = expect_model(model, "backward")
    rays, kind = model.check(rays), model.device.type  # not aligned: the solver sees the losses of this batch
    own: Any = OwnLosses(model, losses)
    check_scale(check_solver(solver), scale)
    step = Step(model, own, solver)
    step.scale = scale
    step.ranks = ranks.world_size()
    if step.ranks > 1:
        ranks.check_same(rays)
    if torch.is_autocast_enabled(kind):  # for the target and its losses
        step.dtype = torch.get_autocast_dtype(kind)
    with torch.autocast(kind, enabled=False):
        result = step(rays, ())
    model.record["convention"] = solver.convention
    if (result.status == Status.INVALID).any():
        check_losses(result.losses, model.objectives, solver, where="in this step")
        raise LossError("the gradients of the objectives are not finite")
    return result


@dataclass(frozen=True)
class OwnLosses:
    """A user's function of the network, with all that a step asks of a problem."""

    model: ParetoModel
    losses: Callable[[Network], Tensor | Sequence[Tensor]]
    has_data = False

    @property
    def units(self) -> Units:
        return Units.of(self.model.objectives, None, None, ())

    def each_loss(self, network: Network, batch: Batch) -> tuple[Tensor, ...]:
        found, names = list(self.losses(network)), self.model.objectives
        if len(found) != len(names):
            raise LossError(
                "the losses do not fit the objectives",
                got=f"{len(found)} losses",
                expected=f"{len(names)}, for {', '.join(names)}",
            )
        return tuple(scalar(name, value) for name, value in zip(names, found))


@dataclass
class _Member:
    """Networks that go through the target together: all rays of a step, or one of them."""

    rays: Tensor
    """``[k, m]``"""
    leaf: Tensor
    """``theta [k, n]``, where the graph of the target begins."""
    losses: Callable[[], Sequence[Tensor]]
    """Runs the networks: their losses, ``m`` times ``[k]``."""
    kept: Callable[[], AbstractContextManager]
    """Inside, the module can run again in the backward pass."""
    columns: Sequence[Tensor] = ()
    passes: list[Any] = field(default_factory=list)
    gradients: list[Tensor] = field(default_factory=list)


class Step:
    """The step of a problem: draws nothing, updates nothing but ``.grad`` and its running mean of the losses.

    A batch is split among the rays of the step, or with ``share_batch`` seen by all of them.
    """

    def __init__(self, model: ParetoModel, problem: Problem, solver: Solver, *, share_batch: bool = False):
        self.model, self.problem, self.solver = model, problem, solver
        self.ideals = Ideals(model.objectives, problem.units, solver, model.device)
        self.split = problem.has_data and not share_batch
        self.dtype: torch.dtype | None = None
        """What the target and its losses are computed in, if not in the precision of the weights."""
        self.scale: float | Tensor = 1.0
        """What the gradient is multiplied by, for a solver with fixed weights."""
        self.ranks = 1
        """Processes that take this step together, each with rows of its own."""
        self.compiled: Callable[..., Sequence[Tensor]] | None = None
        """The losses of all rays together, ``m`` times ``[R]``, by an engine that compiles them."""
        self.mean = torch.zeros(model.m, dtype=torch.float64, device=model.device)
        """Running mean ``[m]`` of the losses, the scale for :data:`FLOOR`; 0 before the first step."""

    def __call__(self, rays: Tensor, batch: Batch, factors: Factors | None = None) -> StepResult:
        """The gradient of one step; of layers in ``factors``, if an optimizer has them, as factors."""
        model, solver, shared = self.model, self.solver, self.shared()
        split = self.split and len(rays) > 1  # one ray sees it all
        parts = self.problem.divided(batch, len(rays)) if split else batch
        theta = model.hypernet.factored(rays, factors)
        with cast(theta.device, self.dtype):
            together = self.compiled is not None or (len(rays) > 1 and model.target.together(theta))
        groups = [[self._all(theta, rays, parts, split)]] if together else self._each(theta, rays, parts, split)

        found: list[tuple[StepResult, list[Tensor]]] = []
        with self._attempt(together, theta.device):
            for group in groups:
                for member in group:
                    with member.kept():
                        with cast(theta.device, self.dtype):
                            columns = member.losses()
                        member.columns = [widened(column).reshape(-1) for column in columns]
                        if solver.needs_gram:  # of one ray, the passes give the gradients of the shared parameters too
                            alone = len(rays) == 1
                            wanted = [member.leaf, *shared] if alone else [member.leaf]
                            member.passes = _passes(model, member.columns, wanted, keep=bool(shared) and not alone)
                found.append(self._solved(group, len(rays), shared))
        if not found:  # together did not work: the rays go in turn from now on
            return self(rays, batch, factors)

        results, gradients = zip(*found)
        thetas, *others = zip(*gradients)
        theta.backward(_joined(thetas))
        for parameter, each in zip(shared, others):
            gradient = _total(each)
            parameter.grad = gradient if parameter.grad is None else parameter.grad + gradient
        result = StepResult(*map(_joined, zip(*results)))
        if solver.positive:
            self._average(result.losses.clamp_min(0) if self.ideals.matter else result.losses)
        return result

    def shared(self) -> list[nn.Parameter]:
        """The parameters of the target that are trained directly, the same for all rays."""
        return [p for p in self.model.target.parameters() if p.requires_grad]

    def _all(self, theta: Tensor, rays: Tensor, parts: Batch, split: bool) -> _Member:
        leaf = theta.detach().requires_grad_()
        run = self.compiled or partial(self.model.target.map, self.problem.each_loss)
        return _Member(rays, leaf, partial(run, leaf, rays, parts, split=split), nullcontext)

    def _each(self, theta: Tensor, rays: Tensor, parts: Batch, split: bool) -> Iterator[list[_Member]]:
        """One ray after the other, or all of them in one group for a solver that needs all losses first."""
        target = self.model.target
        statistics = target.statistics_for(rays, theta)

        def member(r: int) -> _Member:
            leaf = theta[r : r + 1].detach().requires_grad_()
            network = Network(target, target.assembled(leaf.squeeze(0), statistics[r]))  # the gradient of a view is one
            part = nests.map_tensors(lambda t: t[r], parts) if split else parts
            return _Member(rays[r : r + 1], leaf, partial(self.problem.each_loss, network, part), network.kept)

        if self.solver.joint:
            yield [member(r) for r in range(len(rays))]
        else:
            yield from ([member(r)] for r in range(len(rays)))

    @contextmanager
    def _attempt(self, together: bool, device: torch.device) -> Iterator[None]:
        """Inside, rays that cannot go together raise no error, and a solver forgets what it saw of them."""
        if not together or self.compiled:
            with explained():
                yield
            return
        remembers, stacking = self.solver if isinstance(self.solver, Stateful) else None, self.model.target.stacking
        before = copy.deepcopy(remembers.state()) if remembers and not stacking.knows("backward") else {}
        with stacking.attempt(device, "backward"):
            yield
            return
        if remembers:
            remembers.load(before)

    def _solved(self, group: list[_Member], R: int, shared: list[nn.Parameter]) -> tuple[StepResult, list[Tensor]]:
        """The solver's weights for a group, and the gradients of the weighted losses, averaged over the step's rays:
        of ``theta``, one row for each ray of the group, and of the shared parameters."""
        model, solver = self.model, self.solver
        losses = [torch.stack(list(member.columns), dim=1) for member in group]
        rays, values, gram = _joined([member.rays for member in group]), _joined(losses).detach(), None
        if self.ranks > 1:
            values = values.clone()
            ranks.average([values, *(row for member in group if member.passes for row in member.passes[0])])
        if solver.needs_gram:
            gram = _joined([_gram(model, solver, member.rays, member.passes[0]) for member in group])
        weights, status = _solve(self.ideals.around, values, rays, gram, self.mean)
        each = weights if R == 1 else weights / R
        each = each * self.scale if isinstance(self.scale, Tensor) or self.scale != 1 else each
        each = each.split([len(member.rays) for member in group])
        gradients = []
        for member, loss, own in zip(group, losses, each):
            with member.kept():
                gradients.append(_weighted(member, loss, own, shared))
        thetas, *others = zip(*gradients)
        complete = [_joined(thetas), *map(_total, others)]
        if self.ranks > 1:
            ranks.average(complete[1:] if solver.needs_gram else complete)  # the passes were averaged before
        return StepResult(values, weights, status), complete

    def _average(self, losses: Tensor) -> None:
        """Move the running mean, in place: a graph holds on to it."""
        if on_gpu(losses, self.mean):
            from hyperfront.kernels.gpu.running_mean import running_mean_on_gpu  # needs Triton

            return running_mean_on_gpu(losses, self.mean, MEMORY)
        self.mean.lerp_(losses.double().mean(0), torch.where(self.mean > 0, MEMORY, 1.0).double())


def _weighted(member: _Member, losses: Tensor, weights: Tensor, shared: list[nn.Parameter]) -> list[Tensor]:
    """The gradients of ``sum_j weights_j losses_j``, summed over the rays of a member."""
    if len(member.passes) > 1 or (member.passes and not shared):  # the passes gave all, whose m gradients go with each
        flat = weights[0] if len(weights) == 1 else weights.T
        return [_combine(flat, member.passes.pop(0)) for _ in range(len(member.passes))]
    if not member.passes:
        return list(torch.autograd.grad(losses, [member.leaf, *shared], weights, materialize_grads=True))
    found = _combine(weights.T, member.passes.pop())  # no loss of a ray depends on the theta of another
    return [found, *torch.autograd.grad(losses, shared, weights, materialize_grads=True)]


def _joined(parts: Sequence[Tensor]) -> Tensor:
    return parts[0] if len(parts) == 1 else torch.cat(list(parts))


def _total(parts: Sequence[Tensor]) -> Tensor:
    return functools.reduce(torch.add, parts)


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


@contextmanager
def explained() -> Iterator[None]:
    """Inside, what PyTorch says of the older form of activation checkpointing becomes an error with its fix."""
    try:
        yield
    except RuntimeError as error:
        if "use_reentrant" not in str(error):
            raise
        raise TargetError(
            "reentrant activation checkpointing cannot give the gradients of generated tensors",
            got="torch.utils.checkpoint.checkpoint(..., use_reentrant=True)",
            fix="use_reentrant=False; in transformers gradient_checkpointing_enable({'use_reentrant': False})",
        ) from error


def check_solver(solver: Solver) -> Solver:
    """An error for a name or a class where a solver should be."""
    if isinstance(solver, Solver):
        return solver
    raise HyperfrontError("this is no solver", got=repr(solver), expected="an instance, such as hyperfront.EPO()")


def check_scale(solver: Solver, scale: float | Tensor) -> None:
    """An error for a scale that is no positive number, or that the solver cannot have."""
    tensor = isinstance(scale, Tensor)  # its value is not looked at: that would stop a GPU
    if not (scale.numel() == 1 if tensor else 0 < scale < math.inf):
        raise HyperfrontError("the scale is no positive number", got=scale, expected="for example 1 / micro_batches")
    if (tensor or scale != 1) and not solver.fixed_weights:
        raise HyperfrontError(
            f"gradients of {type(solver).__name__} at micro-batches do not add up to the one at the whole batch",
            got=f"scale = {scale}, and weights that depend on the losses or gradients of the batch",
            expected="scale = 1, or a solver whose weights follow from the ray alone, such as LS()",
            fix="one call for the whole batch, whose losses recompute each micro-batch in the backward pass "
            "(torch.utils.checkpoint; docs/loops.md shows it)",
        )


def check_losses(losses: Tensor, objectives: tuple[str, ...], solver: Solver, *, where: str) -> None:
    """An error that names the objective, if a loss is one that the solver cannot work with."""
    faults = {"NaN": losses.isnan(), "infinite": losses.isinf()}
    least = None if solver.least is None else per_objective("ideal", solver.least, losses)
    if least is not None:
        faults["negative" if not least.any() else "below its ideal"] = losses < least
    for fault, mask in faults.items():
        if mask.any():
            row, column = (int(i) for i in mask.nonzero()[0])
            name, bound = objectives[column], "" if least is None else f"{least[column].item():g}"
            low = fault not in ("NaN", "infinite")
            raise LossError(
                f"the objective {name!r} is {fault} {where}",
                got=f"{losses[row, column].item():g}",
                expected=f"a finite number{f' >= {bound}, as {type(solver).__name__} needs' if bound else ''}",
                fix=f"shift it: supervised(..., ideal={{{name!r}: its smallest possible value}})"
                if low
                else "lower the learning rate, check the data for NaN, or clip inside the loss",
            )
