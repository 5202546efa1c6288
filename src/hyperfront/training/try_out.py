"""Try out the first step of a run before anything is written or changed."""

from __future__ import annotations

import itertools
import warnings

import torch
from torch import Tensor

from hyperfront.errors import LossError, ProblemError
from hyperfront.model import ParetoModel
from hyperfront.model.substitution import called
from hyperfront.problem import Problem, scalar
from hyperfront.storage import nests
from hyperfront.storage.batches import Batch
from hyperfront.training.check import compare
from hyperfront.training.first_batch import named_failures
from hyperfront.training.pairing import refuse_all_pairs
from hyperfront.training.reach import trainable
from hyperfront.training.refusals import check_losses, explained
from hyperfront.training.scales import warn_of_scales
from hyperfront.training.step import Step


def try_out(step: Step, rays: Tensor, batch: Batch) -> None:
    """Raise an error unless all objectives are numbers that depend on the generated weights, and ``check`` passes."""
    model, problem = step.model.train(), step.problem
    split = step.split and len(rays) > 1
    batch = problem.divided(batch, len(rays)) if split else batch
    part = nests.map_tensors(lambda t: t[0], batch) if split else batch
    leaf = model.hypernet(rays).detach().requires_grad_()
    try:
        with named_failures(problem, model.target.network(leaf[0]), part):
            losses = torch.stack(model.target.map(problem.each_loss, leaf, rays, batch, split=split), dim=1)
    except ValueError as error:
        if "more than 1 value per channel" not in str(error):  # PyTorch's message of BatchNorm
            raise
        raise ProblemError(
            "BatchNorm cannot normalize a single row",
            got=f"a batch for {len(rays)} ray(s)",
            fix="a larger batch_size, fewer rays_per_step, or share_batch=True",
        ) from None
    seen = step.ideals.without_rounding(losses.detach())
    check_losses(seen, problem.objectives, step.solver, where="at the first step", batch=batch)
    free = [problem.meanings[name].bounds is None for name in problem.objectives]  # a gap starts near 0 and grows
    warn_of_scales(seen[:, free], tuple(itertools.compress(problem.objectives, free)), step.solver)
    with named_failures(problem, model.target.network(leaf[0]), part):
        ignorant = _blind(problem, model, leaf, rays, batch, split)
    for name, blind in ignorant.items():
        if blind:
            raise LossError(
                f"the objective {name!r} does not depend on the generated weights",
                got="no gradient with respect to theta",
                expected="a loss computed from the network's output",
                fix="check that it is not detached, not constant, and not a function of frozen tensors alone",
            )
    found = compare(model, problem.inputs(part), lambda network: problem.each_loss(network, part), rays[:2])
    if shapes := trainable(found.outside):
        warnings.warn(
            f"the losses depend on parameters outside of the model, of shapes {shapes}, which fit does not train: make "
            "them part of the module, or call requires_grad_(False) if they are meant to stay",
            stacklevel=5,
        )


def _blind(
    problem: Problem, model: ParetoModel, leaf: Tensor, rays: Tensor, batch: Batch, split: bool
) -> dict[str, bool]:
    """Find the objectives that do not depend on ``theta``. A zero gradient is no proof: a gap between groups may have
    one."""
    if problem.function is not None:  # it computes all objectives at once: see whether they change with theta
        before, after = (
            model.target.map(problem.losses, theta.detach(), rays, batch, split=split)
            for theta in (leaf, leaf + 0.1 * torch.linspace(-1, 1, leaf.shape[1], device=leaf.device).cos())
        )
        return dict(zip(problem.objectives, (before == after).all(0).tolist()))
    part = nests.map_tensors(lambda t: t[0], batch) if split else batch
    blind = {}
    with explained(), model.target.network(leaf[0]).kept() as network:
        output = called(network, problem.inputs(part))
        for name, score in problem.scores.items():
            scalar(name, score(output, part))  # raises its error now, not after the first epoch
        for name, measure in problem.measures.items():
            value = measure(output, part)
            refuse_all_pairs(name, measure, output, part)
            found = [None]
            if value.requires_grad:
                found = torch.autograd.grad(value, leaf, retain_graph=True, allow_unused=True)
            blind[name] = found[0] is None
    return blind
