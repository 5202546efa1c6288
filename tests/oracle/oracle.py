"""One case under one feature: right, wrong, refused, failed, or not applicable."""

from __future__ import annotations

import copy
import math
import tempfile
import warnings
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor

import hyperfront as hf
from hyperfront.preferences.sampling import InTurn
from tests.oracle.case import Case, leaves, precision
from tests.oracle.features import RAYS, Feature
from tests.oracle.reference import Gradients, grads, predictor, reference
from tests.oracle.setup import Setup


class Outcome(NamedTuple):
    """What came of a case under a feature."""

    kind: str
    """``right``, ``wrong``, ``refused``, ``failed`` (with an error that is not ours) or ``not applicable``."""
    error: float = math.nan
    message: str = ""

    def __str__(self) -> str:
        return f"{self.kind} {self.error:.1e}" if self.kind in ("right", "wrong") else f"{self.kind}: {self.message}"


class Trial:
    """A wrapped module and the plain copy that it is compared with."""

    def __init__(self, setup: Setup):
        self.setup, self.feature = setup, setup.feature
        module, options = setup.module(), {"hypernet": "mlp", "hidden": 8} | self.feature.options
        if setup.case.random:  # draws under vmap are not those of a loop
            options.setdefault("batching", "loop")
        if self.feature.half:
            half = [name for name, p in module.named_parameters() if p.requires_grad][::2]
            options["generate"] = lambda name, _: name in half
        torch.manual_seed(2)
        with precision(torch.float32):  # as hypernetworks are made
            self.model = setup.converted(hf.wrap(module, ["a", "b"], **options))
        with torch.no_grad():  # away from the start, where every ray has nearly the module's own weights
            for p in self.model.hypernet.parameters():
                p.add_(0.05 * torch.randn_like(p))
        if self.feature.copied:
            self.model = copy.deepcopy(self.model)
        self.rays = RAYS[: self.feature.rays].to(setup.device, setup.dtype)

    def step(self) -> float:
        """The largest relative error of losses, weights and gradients of one step."""
        self._settle()
        losses, weights, found = self._step()
        expected = self._reference()
        errors = [worst([losses], [expected.losses]), worst([weights], [expected.weights])]
        return max(*errors, worst(found, expected.parameters))

    def repeat(self) -> float:
        """How far two steps with the same seed are from each other."""
        self._settle()
        buffers = {name: buffer.clone() for name, buffer in self.model.named_buffers()}
        first = self._step()
        for name, buffer in self.model.named_buffers():
            buffer.copy_(buffers[name])
        second = self._step()
        return max(worst([second.losses], [first.losses]), worst(second.parameters, first.parameters))

    def fit(self) -> float:
        """The largest relative error of what one step of gradient descent by ``fit`` changes."""
        before = Trial(self.setup).model.train()
        problem = hf.supervised(
            train=[(self.setup.x,)],
            inputs=lambda batch: batch[0],
            losses={name: lambda output, _, j=j: self.setup.case.losses(output)[j] for j, name in enumerate("ab")},
        )
        hf.fit(
            self.model,
            problem,
            solver=self.feature.solver,
            preferences=InTurn.of(self.rays.cpu().double()),
            rays_per_step=len(self.rays),
            share_batch=True,
            epochs=1,
            seed=3,
            engine=self.feature.engine,
            optimizer=lambda parameters: torch.optim.SGD(parameters, lr=1.0),
            callbacks=[],
        )
        change = [old.detach() - new.detach() for old, new in zip(before.parameters(), self.model.parameters())]
        self.model = before
        return worst(change, self._reference().parameters)

    def outputs(self) -> float:
        """How far a prediction, and that of the module at a ray, are from the plain copy's."""
        self._prepare()
        errors = []
        for ray in self.rays:
            plain = predictor(self.model, self.setup.module(), ray, self._predict)
            expected = leaves(self._predict(plain))
            errors.append(worst([t[0] for t in leaves(self._front(self.model, ray[None]))], expected))
            errors.append(worst(leaves(self._predict(self.model.at(ray))), expected))
        return max(errors)

    def reload(self) -> float:
        """How far the predictions of the saved and loaded model are from those of the model."""
        self._prepare()
        with tempfile.TemporaryDirectory() as folder:
            self.model.save(Path(folder) / "model.safetensors")
            loaded = hf.load(Path(folder) / "model.safetensors", target=self.setup.module()).eval()
        pairs = [[leaves(self._front(model, ray[None])) for model in (loaded, self.model)] for ray in self.rays]
        return max(worst(*pair) for pair in pairs)

    # ---- parts -----------------------------------------------------------------------------------------------

    def _step(self) -> Gradients:
        self.model.zero_grad()
        torch.manual_seed(3)
        result = hf.backward(self.model, self.rays, self.setup.losses, solver=self.feature.solver)
        return Gradients(result.losses, result.weights, grads(self.model))

    def _reference(self) -> Gradients:
        plain = self.setup.module()
        if not self.model.training:
            plain = predictor(self.model, plain, self.rays[0], self._predict)
        torch.manual_seed(3)
        expected = reference(self.model, plain, self.rays, self.setup.losses, self.feature.solver)
        assert max(g.abs().max() for g in expected.parameters if g.numel()) > 0, "the case tests nothing"
        return expected

    def _settle(self) -> None:
        """Training mode, but for random modules under vmap, whose draws are not those of a loop."""
        self.model.train()
        if self.setup.case.random and self.feature.options.get("batching") == "vmap":
            self._prepare()

    def _prepare(self) -> None:
        self.model.calibrate([self.setup.x])
        self.model.eval()

    def _predict(self, module: torch.nn.Module) -> Any:
        torch.manual_seed(3)
        with torch.no_grad():
            return self.setup.run(module)

    def _front(self, model: hf.ParetoModel, rays: Tensor) -> Any:
        torch.manual_seed(3)
        with torch.no_grad():
            return model(self.setup.x, rays)


def worst(found: Iterable[Tensor], expected: Iterable[Tensor]) -> float:
    """The largest error, relative to the largest entry of each tensor or, for tensors of tiny ones, of all of them."""
    pairs = [(a.double(), b.double()) for a, b in zip(found, expected, strict=True) if b.numel()]
    whole = max((b.abs().max().item() for _, b in pairs), default=0.0)
    errors = [((a - b).abs().max() / max(b.abs().max().item(), 1e-3 * whole, 1e-30)).item() for a, b in pairs]
    return max(errors) if errors and all(map(math.isfinite, errors)) else math.inf


def examine(case: Case, name: str, feature: Feature, device: str = "cpu") -> Outcome:
    """The outcome of a case under the feature of that name."""
    if case.missing:
        return Outcome("not applicable", message=f"{', '.join(case.missing)} is not installed")
    if name in case.exempt:
        return Outcome("not applicable", message=case.exempt[name])
    setup = Setup(case, feature, device)
    with warnings.catch_warnings(), precision(setup.dtype):
        warnings.simplefilter("ignore")
        try:
            error = getattr(Trial(setup), feature.compares)()
        except hf.HyperfrontError as refusal:
            return Outcome("refused", message=str(refusal))
        except (AssertionError, ImportError):
            raise
        except Exception as failure:  # all that a module, or torch, may raise
            if plain := setup.plain_failure():
                return Outcome("not applicable", message=f"without hyperfront, too: {plain}")
            return Outcome("failed", message=f"{type(failure).__name__}: {failure}")
    return Outcome("right" if error <= setup.tolerance else "wrong", error)
