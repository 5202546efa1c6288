"""The other side of the comparison: a plain copy of the module with the generated weights as its own parameters.

Nothing of hyperfront computes here but the hypernetwork, the solver (from losses and Gram matrices that are found here)
and, where weights are not generated as they are, the assembly.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm
from torch.nn.modules.instancenorm import _InstanceNorm

import hyperfront as hf


class Gradients(NamedTuple):
    """What a step finds: ``losses [R, m]``, ``weights [R, m]``, and the gradient of every parameter of the model."""

    losses: Tensor
    weights: Tensor
    parameters: list[Tensor]


def assembled(model: hf.ParetoModel, copy: nn.Module, theta: Tensor) -> dict[str, Tensor]:
    """The tensors, by name, that ``theta [n]`` and the shared parameters stand for, differentiable in both."""
    shared = {name: tensor for name, tensor in model.target.shared().items() if tensor.requires_grad}
    if model.target.assembly.kind != "replace":
        return {name: t for name, t in model.target.unpack(theta).items() if t.requires_grad}
    mine = {name: p for name, p in copy.named_parameters() if p.requires_grad and name not in shared}
    parts = theta.split([p.numel() * (1 + p.is_complex()) for p in mine.values()])
    return shared | {name: _like(p, part) for part, (name, p) in zip(parts, mine.items(), strict=True)}


def _like(parameter: Tensor, part: Tensor) -> Tensor:
    """Numbers of theta as a tensor; a complex number is two of them."""
    if not parameter.is_complex():
        return part.view(parameter.shape)
    return torch.complex(part[::2], part[1::2]).view(parameter.shape)


def load(copy: nn.Module, values: dict[str, Tensor]) -> None:
    """Write the values into the parameters of the copy, which stay the tensors that they are."""
    own = dict(copy.named_parameters())
    with torch.no_grad():
        for name, value in values.items():
            own[name].requires_grad_().copy_(value)  # additions of low rank change frozen ones too


def reference(
    model: hf.ParetoModel,
    copy: nn.Module,
    rays: Tensor,
    losses: Callable[[nn.Module], tuple[Tensor, ...]],
    solver: hf.EPO | hf.LS,
) -> Gradients:
    """A step by plain autograd: ray by ray, loss by loss."""
    model.zero_grad()
    theta = model.hypernet(rays)
    leaf = theta.detach().requires_grad_()
    shared = [p for p in model.target.parameters() if p.requires_grad]
    found, rows, direct = [], [], []
    for row in leaf:
        values = assembled(model, copy, row)
        load(copy, values)
        own = dict(copy.named_parameters())
        mine = [own[name] for name in values]
        each = losses(copy)
        for loss in each:
            back = torch.autograd.grad(loss, mine, retain_graph=True, materialize_grads=True)
            back = [gradient.to_dense() for gradient in back]  # those of embeddings may be sparse
            through = torch.autograd.grad(
                list(values.values()), [leaf, *shared], back, retain_graph=True, materialize_grads=True
            )
            rows.append(through[0].sum(0))  # the other rays' rows are zero
            direct.append(through[1:])
        found.append(torch.stack(each).detach())
    table, jacobian = torch.stack(found), torch.stack(rows).unflatten(0, (len(rays), model.m))
    weights, _ = solver(table, rays, jacobian @ jacobian.mT if solver.needs_gram else None)
    weights = weights.to(table.dtype)
    theta.backward(torch.einsum("rm,rmn->rn", weights, jacobian) / len(rays))
    for index, parameter in enumerate(shared):
        parameter.grad = sum(w * g[index] for w, g in zip(weights.flatten() / len(rays), direct))
    return Gradients(table, weights, grads(model))


def grads(model: hf.ParetoModel) -> list[Tensor]:
    """The gradient of every parameter, zeros where there is none."""
    return [torch.zeros_like(p) if p.grad is None else p.grad.clone() for p in model.parameters()]


@torch.no_grad()
def predictor(model: hf.ParetoModel, copy: nn.Module, ray: Tensor, run: Callable[[nn.Module], object]) -> nn.Module:
    """The copy at one ray in evaluation mode; BatchNorm has the statistics of the batch that ``run`` calls it on."""
    load(copy, assembled(model, copy, model.hypernet(ray[None])[0]))
    copy.train()  # a module may keep some of its layers out of it
    norms = [layer for layer in copy.modules() if isinstance(layer, _BatchNorm) and layer.training]
    norms = [layer for layer in norms if layer.track_running_stats]
    copy.eval()
    for layer in norms:
        layer.train()
        layer.reset_running_stats()
        layer.momentum = None  # an average of all batches, here of one
    for layer in copy.modules():
        if isinstance(layer, _InstanceNorm):
            layer.track_running_stats = False  # hyperfront always uses the instance's own statistics
    if norms:
        run(copy)
    copy.eval()
    return copy
