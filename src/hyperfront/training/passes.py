"""Backward passes of a step: the gradients of the losses of networks that run together."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from hyperfront.model import ParetoModel
from hyperfront.model.hypernets import inner_products
from hyperfront.solvers import Solver

SMALL = 2**26
"""Gradients with at most this many entries, for all objectives together, may be computed in one pass."""


@dataclass
class Member:
    """Networks that run together: for all rays of a step, or for one ray."""

    rays: Tensor
    """``[k, m]``"""
    leaf: Tensor
    """``theta [k, n]``, the leaf of the target's graph."""
    losses: Callable[[], Sequence[Tensor]]
    """Runs the networks, and returns their losses, ``m`` times ``[k]``."""
    kept: Callable[[], AbstractContextManager]
    """Makes a context in which the module can run again in the backward pass."""
    columns: Sequence[Tensor] = ()
    passes: list[Any] = field(default_factory=list)
    gradients: list[Tensor] = field(default_factory=list)


def passes(model: ParetoModel, columns: Sequence[Tensor], wanted: list[Tensor], *, keep: bool) -> list[Any]:
    """Compute the ``m`` gradients of each wanted tensor, one for every objective, summed over rays; a tensor or list
    each."""
    m = len(columns)
    vectorizes = model.target.around is None and model.target.stacking.vectorizes(wanted[0].device)
    if vectorizes and m * wanted[0].numel() <= SMALL:
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
        else:  # a gap between groups that have no rows in the batch
            found.append(tuple(torch.zeros_like(tensor) for tensor in wanted))
    return [list(each) for each in zip(*found)]


@functools.cache
def _identity(m: int, dtype: torch.dtype, device: torch.device) -> Tensor:
    return torch.eye(m, dtype=dtype, device=device)


def _combine(weights: Tensor, rows: Sequence[Tensor]) -> Tensor:
    """Compute ``sum_j weights_j rows_j``, for ``weights [m]`` and rows of any shape, or ``[m, R]`` and ``[R, n]``."""
    if isinstance(rows, Tensor):
        return torch.einsum("jr,jrn->rn", weights, rows) if weights.ndim > 1 else torch.tensordot(weights, rows, 1)
    weights = weights[..., None] if weights.ndim > 1 else weights
    total = weights[0] * rows[0]  # a copy, since autograd may hand out the same memory twice
    for weight, row in zip(weights[1:], rows[1:]):
        total.addcmul_(weight, row)  # one at a time: stacked copies of a large target would not fit
    return total


def gram_of(model: ParetoModel, solver: Solver, rays: Tensor, rows: Sequence[Tensor]) -> Tensor:
    """Compute inner products ``[R, m, m]`` of the objectives' gradients, ``m`` times ``[R, n]``, in the solver's
    space."""
    if solver.space == "hypernetwork":
        return model.hypernet.gram(rays, torch.stack(list(rows), dim=1))
    return inner_products(rows)


def weighted(member: Member, losses: Tensor, weights: Tensor, shared: Sequence[Tensor], *, keep: bool) -> list[Tensor]:
    """Compute the gradients of ``sum_j weights_j losses_j``, summed over the rays of a member."""
    if member.gradients:  # of accumulated micro-batches
        return member.gradients
    if len(member.passes) > 1 or (member.passes and not shared):  # the passes computed all gradients: combine them
        flat = weights[0] if len(weights) == 1 else weights.T
        return [_combine(flat, member.passes.pop(0)) for _ in range(len(member.passes))]
    if not member.passes:
        wanted = [member.leaf, *shared]
        return list(torch.autograd.grad(losses, wanted, weights, retain_graph=keep, materialize_grads=True))
    found = _combine(weights.T, member.passes.pop())  # no loss of a ray depends on the theta of another
    return [found, *torch.autograd.grad(losses, shared, weights, retain_graph=keep, materialize_grads=True)]


def joined(parts: Sequence[Tensor]) -> Tensor:
    return parts[0] if len(parts) == 1 else torch.cat(list(parts))


def total(parts: Sequence[Tensor]) -> Tensor:
    return functools.reduce(torch.add, parts)
