"""Algorithm 1 of the paper: one training step, for any solver.

    theta   = hypernet(rays)                          [R, n], with graph
    losses  = losses of the target at theta           [R, m]
    grads   = d losses_j / d theta                    only where the solver needs their Gram matrix
    weights = solver(losses, rays, gram)              [R, m]
    theta.backward(sum_j weights_j grads_j / R)       one backward pass through the hypernetwork

So EPO costs ``m`` backward passes through the *target*, but only one through the hypernetwork.

The networks of several rays run together (stacked by vmap, or side by side on a GPU) or in turn. In turn, a network's
weights stay in the module until its backward passes are done, so that activation checkpointing recomputes with the same
weights. Each ray's activations are freed before the next ray, unless the solver needs the losses of all rays first
(``solver.joint``).
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from functools import partial
from typing import NamedTuple

import torch
from torch import Tensor, nn

from hyperfront.errors import HyperfrontError, RayError, check_flag, shown
from hyperfront.errors.signatures import is_plain
from hyperfront.kernels import on_gpu
from hyperfront.kernels.factors import Factors
from hyperfront.model import ParetoModel
from hyperfront.model.substitution import Network
from hyperfront.problem import Problem
from hyperfront.solvers import Solver, Stateful
from hyperfront.storage import nests
from hyperfront.storage.batches import Batch
from hyperfront.training import ranks
from hyperfront.training.ideals import Ideals
from hyperfront.training.passes import Member, gram_of, joined, passes, total, weighted
from hyperfront.training.precision import cast, widened
from hyperfront.training.refusals import explained

FLOOR = 1e-8
"""A loss below this share of its running mean is raised to it, where the solver needs positive losses."""
MEMORY = 0.01
"""The weight of a step in the running mean."""


Solve = Callable[[Tensor, Tensor, Tensor | None], tuple[Tensor, Tensor]]
"""``(losses [R, m], rays [R, m], gram [R, m, m] or None) -> weights [R, m], status [R]``."""


class StepResult(NamedTuple):
    """The results of a step: ``losses [R, m]``, ``weights [R, m]``, ``status`` uint8 ``[R]``."""

    losses: Tensor
    weights: Tensor
    status: Tensor


class Step:
    """The step of a problem. It draws no random numbers, and updates only ``.grad`` and its running mean of the losses.

    The batch is split among the rays of the step; with ``share_batch`` every ray gets the whole batch.
    """

    def __init__(self, model: ParetoModel, problem: Problem, solver: Solver, *, share_batch: bool = False):
        if not isinstance(model, ParetoModel) or not isinstance(solver, Solver) or not hasattr(problem, "each_loss"):
            raise HyperfrontError(
                "a step needs a model, a problem and a solver",
                got=", ".join(type(part).__name__ for part in (model, problem, solver)),
                expected="ParetoModel, Problem, Solver",
            )
        check_flag("share_batch", share_batch)
        if isinstance(problem, Problem):
            problem.check_model(model)
        self.model, self.problem, self.solver = model, problem, solver
        self.ideals = Ideals(model.objectives, problem.units, solver, model.device)
        self.split = problem.has_data and not share_batch
        self.dtype: torch.dtype | None = None
        """The precision of the target and its losses under autocast; None for the precision of the weights."""
        self.scale: float | Tensor = 1.0
        """A factor of the gradient, for solvers with fixed weights."""
        self.frozen = False
        """Whether the parameters that all rays share rest: they get no gradient."""
        self.ranks = 1
        """The number of processes that take this step together, each with its own rows."""
        self.watch: Callable[[Sequence[Tensor], Tensor], list[Tensor]] | None = None
        """Checks the losses and ``theta`` of a step's first networks, and returns more tensors that need a gradient."""
        self.in_turn = False
        """Run the rays one after the other in any case: side by side, gradients of what they share outside of the model
        would meet on several streams of a GPU."""
        self.compiled: Callable[..., Sequence[Tensor]] | None = None
        """A compiled function of an engine, which computes the losses of all rays together, ``m`` times ``[R]``."""
        self.mean = torch.zeros(model.m, dtype=torch.float64, device=model.device)
        """Running mean ``[m]`` of the losses, the scale for :data:`FLOOR`; 0 before the first step."""
        self.weigh: Solve = self.solve
        """Computes the weights. An engine that traces the step replaces this, to call the solver outside the trace."""

    def __call__(
        self, rays: Tensor, batch: Batch, factors: Factors | None = None, *, remembers: bool = True
    ) -> StepResult:
        """Compute the gradient of one step. With ``factors``, gradients of some layers are left there as factors.

        The running mean of the losses is only updated if the step ``remembers``.
        """
        model, solver = self.model, self.solver
        check_flag("remembers", remembers)
        if (
            not is_plain(rays)
            or not rays.is_floating_point()
            or rays.ndim != 2
            or rays.shape[1] != model.m
            or not len(rays)
        ):
            raise RayError(
                "a step takes rays as a tensor", got=shown(rays), expected=f"[R, {model.m}], from model.check(rays)"
            )
        rays = rays.to(next(model.hypernet.parameters(), rays).dtype)
        shared: list[Tensor] = [*self.shared()]
        split = self.split and len(rays) > 1  # a single ray gets the whole batch
        parts = self.problem.divided(batch, len(rays)) if split else batch
        theta = model.hypernet.factored(rays, factors)
        with cast(theta.device, self.dtype):
            several = len(rays) > 1 and not self.in_turn
            together = self.compiled is not None or (several and model.target.together(theta))
        groups = [[self._all(theta, rays, parts, split)]] if together else self._each(theta, rays, parts, split)

        found: list[tuple[StepResult, list[Tensor]]] = []
        beside: list[Tensor] | None = None
        with self._attempt(together, theta.device):
            for group in groups:
                for member in group:
                    with member.kept():
                        with cast(theta.device, self.dtype):
                            columns = member.losses()
                        member.columns = [widened(column).reshape(-1) for column in columns]
                        if self.watch and beside is None:
                            beside = self.watch(member.columns, member.leaf)
                            shared = [*shared, *beside]
                            if beside and together and theta.is_cuda:
                                self.in_turn = True
                                return self(rays, batch, factors, remembers=remembers)
                        if solver.needs_gram:  # of one ray, the passes give the gradients of the shared parameters too
                            alone = len(rays) == 1
                            wanted = [member.leaf, *shared] if alone else [member.leaf]
                            keep = bool(beside or (shared and not alone))
                            member.passes = passes(model, member.columns, wanted, keep=keep)
                found.append(self.solved(group, len(rays), shared, keep=bool(beside)))
        if not found:  # running rays together failed: run them in turn from now on
            return self(rays, batch, factors, remembers=remembers)
        return self.finished(theta, found, shared, remembers=remembers)

    def finished(
        self,
        theta: Tensor,
        found: list[tuple[StepResult, list[Tensor]]],
        shared: Sequence[Tensor],
        *,
        remembers: bool = True,
    ) -> StepResult:
        """Take the backward pass through the hypernetwork, from what :meth:`solved` found for each group."""
        results, gradients = zip(*found)
        thetas, *others = zip(*gradients)
        theta.backward(joined(thetas))
        for parameter, each in zip(shared, others):
            gradient = total(each)
            parameter.grad = gradient if parameter.grad is None else parameter.grad + gradient
        result = StepResult(*map(joined, zip(*results)))
        if remembers:
            self.remember(result.losses)
        return result

    def shared(self) -> list[nn.Parameter]:
        """Return the parameters of the target that are trained directly, which all rays share."""
        return [] if self.frozen else [p for p in self.model.target.parameters() if p.requires_grad]

    def _all(self, theta: Tensor, rays: Tensor, parts: Batch, split: bool) -> Member:
        leaf = theta.detach().requires_grad_()
        run = self.compiled or partial(self.model.target.map, self.problem.each_loss)
        return Member(rays, leaf, partial(run, leaf, rays, parts, split=split), nullcontext)

    def _each(self, theta: Tensor, rays: Tensor, parts: Batch, split: bool) -> Iterator[list[Member]]:
        """Yield groups of rays: one ray at a time, or all rays at once for a solver that needs all losses first."""
        target = self.model.target
        statistics = target.statistics_for(rays, theta)

        def member(r: int) -> Member:
            leaf = theta[r : r + 1].detach().requires_grad_()
            network = Network(target, target.assembled(leaf.squeeze(0), statistics[r]))  # a view has a view as gradient
            part = nests.map_tensors(lambda t: t[r], parts) if split else parts
            return Member(rays[r : r + 1], leaf, partial(self.problem.each_loss, network, part), network.kept)

        if self.solver.joint:
            yield [member(r) for r in range(len(rays))]
        else:
            yield from ([member(r)] for r in range(len(rays)))

    @contextmanager
    def _attempt(self, together: bool, device: torch.device) -> Iterator[None]:
        """Try to run rays together within the ``with`` block. If that fails, raise no error, and restore the state of
        the solver."""
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

    def solved(
        self, group: list[Member], R: int, shared: Sequence[Tensor], *, keep: bool
    ) -> tuple[StepResult, list[Tensor]]:
        """Compute the solver's weights for a group, and the gradients of the weighted losses, averaged over the step's
        rays: for ``theta``, one row for each ray of the group, and for the shared tensors. ``keep`` keeps the graph, of
        which rays may share a part outside of the model."""
        model, solver = self.model, self.solver
        losses = [torch.stack(list(member.columns), dim=1) for member in group]
        rays, values, gram = joined([member.rays for member in group]), joined(losses).detach(), None
        if self.ranks > 1:
            values = values.clone()
            ranks.average([values, *(row for member in group if member.passes for row in member.passes[0])])
        if solver.needs_gram:
            gram = joined([gram_of(model, solver, member.rays, member.passes[0]) for member in group])
        weights, status = self.weigh(values, rays, gram)
        each = weights if R == 1 else weights / R
        each = each * self.scale if isinstance(self.scale, Tensor) or self.scale != 1 else each
        each = each.split([len(member.rays) for member in group])
        gradients = []
        for member, loss, own in zip(group, losses, each):
            with member.kept():
                gradients.append(weighted(member, loss, own, shared, keep=keep))
        thetas, *others = zip(*gradients)
        complete = [joined(thetas), *map(total, others)]
        if self.ranks > 1:
            ranks.average(complete[1:] if solver.needs_gram else complete)  # the passes were averaged before
        return StepResult(values, weights, status), complete

    def solve(self, losses: Tensor, rays: Tensor, gram: Tensor | None) -> tuple[Tensor, Tensor]:
        """Compute the solver's weights and status. Losses near zero are raised if the solver needs positive losses."""
        solver, mean = self.ideals.around, self.mean
        seen = losses.device.type == "cpu" and not (losses < FLOOR * mean).any()  # a GPU would stop
        if solver.positive and not seen:
            weights, status = solver.floored(losses, rays, gram, FLOOR * mean)
        else:
            weights, status = solver(losses, rays, gram)
        return weights.to(losses.dtype), status

    def remember(self, losses: Tensor) -> None:
        """Update the running mean in place, since a CUDA graph refers to it."""
        if not self.solver.positive:
            return None
        losses = losses.clamp_min(0) if self.ideals.matter else losses
        if on_gpu(losses, self.mean):
            from hyperfront.kernels.gpu.running_mean import running_mean_on_gpu  # needs Triton

            return running_mean_on_gpu(losses, self.mean, MEMORY)
        self.mean.lerp_(losses.double().mean(0), torch.where(self.mean > 0, MEMORY, 1.0).double())
