"""``check``: compare a step of a wrapped module with plain autograd on a plain copy of the module.

The copy is the result of ``model.at(ray)``: the module with the generated weights as its own parameters.

- Its predictions must equal the model's predictions at that ray.
- It must register every parameter that it computes with, since no other one would be generated or trained.
- The gradient of its losses must equal the gradient of the step. This also detects a backward pass that runs parts of
  the module again (activation checkpointing) with other weights.

The comparison moves the weights away from their start, where wrong results may be right by chance.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from hyperfront.errors import LossError, TargetError
from hyperfront.errors.signatures import checked
from hyperfront.model import ParetoModel
from hyperfront.model.hypernets import OwnHypernet
from hyperfront.model.substitution import called
from hyperfront.model.target import Target
from hyperfront.solvers import Solver, Status
from hyperfront.solvers.base import named_where_finite, rescale
from hyperfront.storage import nests
from hyperfront.storage.batches import Batch, to_device
from hyperfront.training.backward import OwnLosses
from hyperfront.training.plain_module import PlainModule
from hyperfront.training.randomness import Randomness
from hyperfront.training.reach import outside, refuse_unreached
from hyperfront.training.scales import warn_of_scales
from hyperfront.training.step import Step
from hyperfront.training.untouched import untouched

Losses = Callable[[Any], Tensor | Sequence[Tensor]]
TOLERANCES = {torch.float64: 1e-6, torch.float32: 1e-2}
"""The largest relative errors by rounding; in other precisions, a tenth."""
NEGLIGIBLE = 1e-3
"""Gradients of tensors are compared relative to their norms, or to this share of the norm of the whole gradient."""
SCALES = "divide each loss by a typical size of it ({sizes}), or put Normalize in a chain around the solver"


class Checked(NamedTuple):
    """The result of :func:`check` for a model without faults."""

    error: float
    """The largest difference between the gradients, relative to their norm."""
    idle: tuple[str, ...]
    """Generated tensors that no loss depends on, such as an ignored head."""


class Compared(NamedTuple):
    """The result of a check, and other observations from a first step."""

    checked: Checked
    losses: Tensor
    """``[m]`` at the first ray."""
    outside: list[Tensor]
    """Trainable tensors outside of the model that the losses depend on."""


class Gradient(NamedTuple):
    """Losses ``[m]`` and weights ``[m]`` at one ray, and the gradient of the weighted loss with respect to theta
    ``[n]``."""

    losses: Tensor
    weights: Tensor
    by_theta: Tensor


@checked
def check(model: ParetoModel, batch: Batch, losses: Losses, *, rays: Tensor | Sequence | None = None) -> Checked:
    """Compare one step of ``model`` with plain autograd on a plain copy of its module; an error says where they differ.

    ``batch`` is an input of the module, and ``losses(network)`` returns the ``m`` losses of one network, as for
    :func:`hyperfront.backward`. The check uses at most two rays. It takes as long as a few steps, and changes neither
    the model nor its gradients nor random numbers. :func:`hyperfront.fit` calls it before its first step.

    >>> import hyperfront as hf
    >>> x = torch.randn(8, 4)
    >>> model = hf.wrap(nn.Linear(4, 2), ["left", "right"])
    >>> checked = hf.check(model, x, lambda net: (net(x)[:, 0].square().mean(), (net(x)[:, 1] - 1).square().mean()))
    >>> checked.idle
    ()
    """
    found = compare(model, batch, losses, rays)
    warn_of_scales(found.losses[None], model.objectives, None, SCALES, stacklevel=3)
    return found.checked


def compare(model: ParetoModel, batch: Batch, losses: Losses, rays: Tensor | Sequence | None = None) -> Compared:
    """Do the work of :func:`check`, without its warning."""
    chosen = model.check(_two_rays(model.m) if rays is None else rays)[:2]
    with torch.no_grad(), torch.autocast(model.device.type, enabled=False):
        theta = model.hypernet(chosen)
    batch = to_device(batch, model.device)
    with untouched(model) as restore:
        try:
            return _Comparison(model, batch, losses, chosen, restore).run(_moved(theta, model.target))
        except (TargetError, LossError):
            raise
        except Exception:  # the module may not work with the moved weights
            restore()
            return _Comparison(model, batch, losses, chosen, restore).run(theta)


class _Comparison:
    """A comparison of a model's step with the same step of a plain copy of its module."""

    def __init__(self, model: ParetoModel, batch: Batch, losses: Losses, rays: Tensor, restore: Callable[[], bool]):
        self.model, self.target, self.batch, self.losses = model, model.target, batch, losses
        self.rays, self.restore = rays, restore
        self.outside: list[Tensor] = []

    def run(self, theta: Tensor) -> Compared:
        """Compare at the first ray alone, and then at all rays together unless their results may differ by design."""
        plain, moved = self._plain(theta[0], self.rays[0])
        changed = self.restore()
        found = self._step(theta[:1], self.rays[:1])[0]
        errors = [self._judge(found, plain, self.rays[0], theta[0])]
        if len(theta) > 1 and not self.restore() and not changed and not moved:
            # otherwise each ray has its own random numbers or buffers
            first, second = self._step(theta, self.rays)
            other, _ = self._plain(theta[1], self.rays[1])
            errors.append(self._judge(first, plain, self.rays[0], theta[0]))
            errors.append(self._judge(second, other, self.rays[1], theta[1]))
        self._refuse_other_predictions(theta)
        named = zip(self.target.assembly.parts, plain.by_theta.split(self.target.sizes))
        idle = tuple(part.name for part, gradient in named if not gradient.any())
        return Compared(Checked(max(errors), idle), found.losses, self.outside)

    def _step(self, theta: Tensor, rays: Tensor) -> list[Gradient]:
        """Take a step, and return its results at each ray."""
        model = copy.copy(self.model)
        given = _Given(theta)
        model._modules = {**self.model._modules, "hypernet": OwnHypernet(given, model.m, theta.shape[1])}
        model.record = {}
        model.train()
        own: Any = OwnLosses(model, self.losses)
        step, kind = Step(model, own, _Balanced()), model.device.type
        step.watch = self._look
        if torch.is_autocast_enabled(kind):
            step.dtype = torch.get_autocast_dtype(kind)
        with torch.autocast(kind, enabled=False):
            result = step(rays, ())
        if (result.status == Status.INVALID).any():
            raise LossError("the losses, or their gradients, are not finite", got=result.losses.tolist())
        assert given.theta.grad is not None
        return [Gradient(*each) for each in zip(result.losses, result.weights, len(rays) * given.theta.grad)]

    def _look(self, losses: Sequence[Tensor], theta: Tensor) -> list[Tensor]:
        self.outside = outside(self.model, losses, theta)
        refuse_unreached(self.model.objectives, losses, theta)
        return []

    def _plain(self, theta: Tensor, ray: Tensor) -> tuple[Gradient, bool]:
        """Compute the results by plain autograd on a plain copy, and whether it drew random numbers."""
        self.restore()
        module = self.target.module_at(theta, ray)
        randomness = Randomness(self.model.device, module)
        own = dict(module.named_parameters())
        places = [own[name].requires_grad_() for name in self.target.assembly.names]
        module.train()  # which need not return the module
        network, before = PlainModule(module), randomness.states()
        own_losses: Any = OwnLosses(self.model, self.losses)
        each = torch.stack(own_losses.each_loss(network, self.batch))
        moved = randomness.moved(before)
        weights = _Balanced()(each.detach()[None], each.detach()[None])[0][0]
        network.refuse_unregistered(self.batch)
        leaf = theta.clone().requires_grad_()
        made = self.target.unpack(leaf)
        values = [made[name] for name in self.target.assembly.names]
        found = torch.autograd.grad(each, places, weights.to(each), materialize_grads=True)
        gradients = [gradient.to_dense() if gradient.is_sparse else gradient for gradient in found]
        (by_theta,) = torch.autograd.grad(values, leaf, gradients, materialize_grads=True)
        return Gradient(each.detach(), weights, by_theta), moved

    def _refuse_other_predictions(self, theta: Tensor) -> None:
        """Raise an error unless ``model.at(ray)`` predicts like the model at that ray."""
        self.model.eval()
        for ray, row in zip(self.rays, theta):
            self.restore()
            statistics = self.target.statistics_for(ray[None], row[None])[0]
            expected = nests.tensors(called(self.target.network(row.clone().requires_grad_(), statistics), self.batch))
            self.restore()
            found = nests.tensors(called(PlainModule(self.target.module_at(row, ray)), self.batch))
            error = max((_difference(*pair) for pair in zip(found, expected)), default=0.0)
            if error > _tolerance(row):
                raise TargetError(
                    "model.at(ray) predicts other values than the model at that ray",
                    got=f"a relative difference of {error:.2g}",
                    expected="the same outputs from a copy that has the generated weights as its own parameters",
                    fix="reach every parameter as an attribute of its layer (self.layer.weight) when the module is "
                    "called: a list, dict or function made in the constructor keeps the old tensors",
                )

    def _judge(self, found: Gradient, plain: Gradient, ray: Tensor, theta: Tensor) -> float:
        """Return the relative difference of the gradients, or raise an error that names the tensor."""
        tolerance = _tolerance(theta)
        whole = plain.by_theta.norm()
        parts = list(zip(self.target.assembly.parts, *(g.by_theta.split(self.target.sizes) for g in (found, plain))))
        errors = [float((a - b).norm() / b.norm().clamp_min(NEGLIGIBLE * whole).clamp_min(1e-30)) for _, a, b in parts]
        worst = max(range(len(errors)), key=errors.__getitem__)
        unused = [part.name for part, a, b in parts if not a.any() and b.norm() > NEGLIGIBLE * whole]
        if errors[worst] <= tolerance or not plain.by_theta.isfinite().all() or self._is_random(plain, ray, theta):
            return errors[worst]
        if unused:
            raise TargetError(
                "the module does not compute with generated weights",
                got=f"no gradient for {', '.join(unused)}, on which the losses of a plain copy depend",
                expected="every parameter reached as an attribute of its layer (self.layer.weight)",
                fix="do not keep parameters in lists, dicts or functions made in the constructor; or leave these out "
                "with generate=",
            )
        if (difference := _difference(found.losses, plain.losses)) > tolerance:
            raise TargetError(
                "the losses of a step differ from the losses of a plain copy of the module with the same weights",
                got=f"a relative difference of {difference:.2g}",
                expected=f"at most {tolerance:g}",
                fix="compute with nothing but weights, buffers and the batch: a function, hook or object outside of "
                "the module that holds tensors or a state of its own is not copied with it",
            )
        raise TargetError(
            "the gradient of a step differs from the gradient of a plain copy of the module with the same weights",
            got=f"the same losses, and a relative error of {errors[worst]:.2g} in {parts[worst][0].name}",
            expected=f"at most {tolerance:g}",
            fix="if the module runs parts of itself again in the backward pass (activation checkpointing, or your own "
            "autograd.Function or hook), switch that off",
        )

    def _is_random(self, plain: Gradient, ray: Tensor, theta: Tensor) -> bool:
        """Whether the gradient of the plain copy itself differs in one of three further calls."""
        again = (self._plain(theta, ray)[0].by_theta for _ in range(3))
        return any(_difference(gradient, plain.by_theta) > _tolerance(theta) for gradient in again)


def _two_rays(m: int) -> Tensor:
    """Make two rays: one with equal entries, and one with growing entries."""
    shares = torch.stack([torch.ones(m), torch.arange(1.0, m + 1)])
    return shares / shares.sum(-1, keepdim=True)


class _Given(nn.Module):
    """A hypernetwork with a constant output."""

    def __init__(self, theta: Tensor):
        super().__init__()
        self.theta = nn.Parameter(theta.detach().clone())

    def forward(self, rays: Tensor) -> Tensor:
        return self.theta


class _Balanced(Solver):
    """A solver whose weights balance the sizes of the losses, so that every objective counts."""

    joint = False

    def __call__(self, losses: Tensor, rays: Tensor, gram: Tensor | None = None) -> tuple[Tensor, Tensor]:
        size = losses.abs()
        weights = 1 / (size + NEGLIGIBLE * size.mean(-1, keepdim=True))
        return rescale(weights, torch.ones_like(losses) / losses.shape[-1]), named_where_finite(losses)


def _moved(theta: Tensor, target: Target) -> Tensor:
    """Perturb ``theta [R, n]`` differently at each ray: numbers keep their sign and size, and zeros move too."""
    count = torch.arange(theta.numel(), device=theta.device, dtype=torch.float64).view_as(theta)
    first, second = (12.9898 * count).sin().to(theta), (78.233 * count).sin().to(theta)
    return theta * (1 + 0.1 * first) + 0.01 * second * theta.abs().mean()


def _difference(found: Tensor, expected: Tensor) -> float:
    """Compute the norm of the difference, relative to the norm of the expected tensor."""
    found, expected = found.detach().double(), expected.detach().double()
    return float((found - expected).norm() / expected.norm().clamp_min(1e-30)) if found.numel() else 0.0


def _tolerance(tensor: Tensor) -> float:
    lowered = torch.is_autocast_enabled(tensor.device.type)
    return 0.1 if lowered else TOLERANCES.get(tensor.dtype, 0.1)
