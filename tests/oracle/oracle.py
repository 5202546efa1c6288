"""One case under one feature: right, wrong, refused, or not applicable."""

from __future__ import annotations

import copy
import math
import tempfile
import warnings
from collections.abc import Callable, Iterable
from contextlib import nullcontext
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

import hyperfront as hf
from tests.oracle.case import Case, call, leaves, precision
from tests.oracle.features import RAYS, Feature
from tests.oracle.reference import Gradients, grads, predictor, reference

TOLERANCE = {"float64": 1e-9, "float32": 1e-4, "bf16": 3e-2}


class Outcome(NamedTuple):
    """What came of a case under a feature."""

    kind: str
    """``right``, ``wrong``, ``refused``, ``failed`` (with an error that is not ours) or ``not applicable``."""
    error: float = math.nan
    message: str = ""

    def __str__(self) -> str:
        return f"{self.kind} {self.error:.1e}" if self.kind in ("right", "wrong") else f"{self.kind}: {self.message}"


class Checkpointed(nn.Module):
    """The module, which computes its activations again in the backward pass."""

    def __init__(self, module: nn.Module):
        super().__init__()
        self.module = module

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        return checkpoint(self.module, *args, use_reentrant=False, **kwargs)


class Trial:
    """A wrapped module and the plain copy that it is compared with."""

    def __init__(self, case: Case, feature: Feature, device: str = "cpu"):
        self.case, self.feature, self.device = case, feature, device
        self.dtype = feature.dtype
        self.x = case.batch(self.dtype, device)
        self.module = self._module()
        options = {"hypernet": "mlp", "hidden": 8} | feature.options
        if feature.half:
            half = [name for name, p in self.module.named_parameters() if p.requires_grad][::2]
            options["generate"] = lambda name, _: name in half
        torch.manual_seed(2)
        with precision(torch.float32):  # as hypernetworks are made
            self.model = self._converted(hf.wrap(self.module, ["a", "b"], **options))
        with torch.no_grad():  # away from the start, where every ray has nearly the module's own weights
            for p in self.model.hypernet.parameters():
                p.add_(0.05 * torch.randn_like(p))
        if feature.copied:
            self.model = copy.deepcopy(self.model)
        self.rays = RAYS[: feature.rays].to(device, self.dtype)
        self.tolerance = case.precision if self.dtype == torch.float64 else TOLERANCE["float32"]
        if feature.autocast:
            self.tolerance = TOLERANCE["bf16"]

    def _converted(self, module: Any) -> Any:
        """In float64, if the comparison is: a module is otherwise left in the precisions that it has."""
        return module.double() if self.dtype == torch.float64 else module

    def _module(self) -> nn.Module:
        """The module, made anew, in training mode."""
        made = self._converted(self.case.build(self.dtype, self.device))
        return (Checkpointed(made) if self.feature.checkpointed else made).train()

    def losses(self, network: Callable[..., Any]) -> tuple[Tensor, ...]:
        """The losses of one network: of a plain module, or of what hyperfront hands out."""
        context = torch.autocast(self.device, torch.bfloat16) if self.feature.autocast else nullcontext()
        with context:
            output = call(network, self.x) if isinstance(network, nn.Module) else network(self.x)
        return tuple(loss.to(self.dtype) for loss in self.case.losses(output))

    def step(self) -> float:
        """The largest relative error of losses, weights and gradients of one step."""
        self._settle()
        torch.manual_seed(3)
        result = hf.backward(self.model, self.rays, self.losses, solver=self.feature.solver)
        found = grads(self.model)
        expected = self._reference()
        errors = [worst([result.losses], [expected.losses]), worst([result.weights], [expected.weights])]
        return max(*errors, worst(found, expected.parameters))

    def _reference(self) -> Gradients:
        plain = self._module().train(self.model.training)
        if not self.model.training:
            plain = predictor(self.model, plain, self.rays[0], self._run)
        torch.manual_seed(3)
        expected = reference(self.model, plain, self.rays, self.losses, self.feature.solver)
        assert max(g.abs().max() for g in expected.parameters if g.numel()) > 0, "the case tests nothing"
        return expected

    def fit(self) -> float:
        """The same for what one step of gradient descent by ``fit`` changes."""
        before = [p.detach().clone() for p in self.model.parameters()]
        first = copy.deepcopy(self.model)
        problem = hf.supervised(
            train=[(self.x,)],
            inputs=lambda batch: batch[0],
            losses={name: lambda output, _, j=j: self.case.losses(output)[j] for j, name in enumerate("ab")},
        )
        hf.fit(
            self.model,
            problem,
            solver=self.feature.solver,
            preferences=hf.FixedRays(self.rays),
            rays_per_step=len(self.rays),
            share_batch=True,
            epochs=1,
            seed=3,
            engine=self.feature.engine or "auto",
            optimizer=lambda parameters: torch.optim.SGD(parameters, lr=1.0),
            callbacks=[],
        )
        change = [old - new.detach() for old, new in zip(before, self.model.parameters())]
        self.model = first.train()
        return worst(change, self._reference().parameters)

    def outputs(self) -> float:
        """How far a prediction, and that of the module at a ray, are from the plain copy's."""
        self.model.calibrate([self.x])
        self.model.eval()
        errors = []
        for ray in self.rays:
            plain = predictor(self.model, self._module(), ray, self._run)
            expected = self._run(plain)
            together = self._predict(ray[None])
            errors.append(worst([t[0] for t in leaves(together)], leaves(expected)))
            errors.append(worst(leaves(self._run(self.model.at(ray))), leaves(expected)))
        return max(errors)

    def _run(self, module: Callable[..., Any]) -> Any:
        torch.manual_seed(3)
        with torch.no_grad():
            return call(module, self.x)

    def reload(self) -> float:
        """How far the predictions of the saved and loaded model are from those of the model."""
        self.model.calibrate([self.x])
        self.model.eval()
        with tempfile.TemporaryDirectory() as folder:
            self.model.save(Path(folder) / "model.safetensors")
            target = self._module()
            with precision(torch.float32):
                loaded = hf.load(Path(folder) / "model.safetensors", target=target)
        first, second = (leaves(self._predict(self.rays, model)) for model in (self.model, loaded.eval()))
        return worst(second, first)

    def _predict(self, rays: Tensor, model: hf.ParetoModel | None = None) -> Any:
        torch.manual_seed(3)
        with torch.no_grad():
            return (model or self.model)(self.x, rays)

    def repeat(self) -> float:
        """How far two calls with the same seed are from each other, in losses and gradients."""
        self._settle()
        found = []
        buffers = {name: b.clone() for name, b in self.model.named_buffers()}
        for _ in range(2):
            for name, b in self.model.named_buffers():
                b.copy_(buffers[name])
            self.model.zero_grad()
            torch.manual_seed(3)
            result = hf.backward(self.model, self.rays, self.losses, solver=self.feature.solver)
            found.append([result.losses, *grads(self.model)])
        return worst(*found)

    def _settle(self) -> None:
        """Draws under vmap are not those of the loop, so random modules are compared in evaluation mode there."""
        self.model.train()
        if self.case.random and self.feature.options.get("batching") != "loop" and len(self.rays) > 1:
            self.model.calibrate([self.x])
            self.model.eval()


def worst(found: Iterable[Tensor], expected: Iterable[Tensor]) -> float:
    """The largest error, relative to the largest entry of each tensor or, for tensors of tiny ones, of all of them."""
    pairs = [(a.double(), b.double()) for a, b in zip(found, expected, strict=True) if b.numel()]
    whole = max((b.abs().max().item() for _, b in pairs), default=0.0)
    errors = [((a - b).abs().max() / max(b.abs().max().item(), 1e-3 * whole, 1e-30)).item() for a, b in pairs]
    if not errors or not all(map(math.isfinite, errors)):
        return math.inf
    return max(errors)


def examine(case: Case, name: str, feature: Feature, device: str = "cpu") -> Outcome:
    """The outcome of a case under a feature."""
    if case.missing:
        return Outcome("not applicable", message=f"{', '.join(case.missing)} is not installed")
    if name in case.exempt:
        return Outcome("not applicable", message=case.exempt[name])
    with warnings.catch_warnings(), precision(feature.dtype):
        warnings.simplefilter("ignore")
        try:
            trial = Trial(case, feature, device)
            error = getattr(trial, feature.compares)()
        except hf.HyperfrontError as refusal:
            return Outcome("refused", message=str(refusal))
        except AssertionError:
            raise
        except Exception as failure:  # everything that a module and torch may raise
            return Outcome("failed", message=f"{type(failure).__name__}: {failure}")
    return Outcome("right" if error <= trial.tolerance else "wrong", error)
