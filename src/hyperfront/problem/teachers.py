"""Teachers: whatever maps inputs and rays to outputs.

====================== =========================================================================================
a model of ours        predicts at the ray itself: an ensemble, a larger target's front, separate models per ray
a module               predicts the same at every ray
``m`` modules          one for each objective ``j``: its part ``j`` of the output is taken
a function             ``f(inputs, ray [m]) -> outputs [B, ...]``
====================== =========================================================================================
"""

from __future__ import annotations

import zlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from hyperfront.errors import ProblemError
from hyperfront.model import ParetoModel
from hyperfront.model.expected import kind_of
from hyperfront.model.substitution import called
from hyperfront.preferences import convert
from hyperfront.storage import checksums
from hyperfront.storage.batches import Batch, arguments, split
from hyperfront.storage.nests import map_tensors, tensors
from hyperfront.storage.provenance import describe


class Teacher(ABC):
    """Abstract base; subclasses are final."""

    modules: Sequence[nn.Module] = ()
    """The modules with the teacher's weights."""
    convention: Any = None
    """The convention of the student's rays."""

    @abstractmethod
    def __call__(self, x: Batch, rays: Tensor) -> Any:
        """Compute outputs ``[B, ...]`` for inputs ``x [B, ...]``; every ray of ``rays [R, m]`` has ``B / R``
        rows in turn."""

    def ready(self, student: ParetoModel, convention: str) -> None:
        """Prepare for a run of ``student``, whose rays have this convention: the teacher moves to its device."""
        if student in self.modules:
            raise ProblemError("a model cannot teach itself", fix="train a copy: copy.deepcopy(model)")
        self.convention = convention
        for module in self.modules:
            module.to(student.device).eval()

    @abstractmethod
    def describe(self) -> Any:
        """Describe the teacher as JSON, so that a run is continued with the same teacher only."""


class FrontTeacher(Teacher):
    """A model of a front, at the student's own ray. Rays are converted where that needs no front; between the
    conventions ``weights`` and ``inverse`` they are taken as they are."""

    def __init__(self, model: ParetoModel):
        self.model, self.modules = model, (model,)

    def __call__(self, x: Batch, rays: Tensor) -> Any:
        model, own = self.model, self.model.record.get("convention", self.convention)
        if "direction" in (own, self.convention) and own != self.convention:
            rays = convert(rays, self.convention, own)
        rays = model.align(rays.to(next(model.hypernet.parameters())))
        theta = model.hypernet(rays)
        if len(rays) == 1:
            return map_tensors(lambda t: t[0], model.target.map(called, theta, rays, x, split=False))
        outputs = model.target.map(called, theta, rays, split(x, len(rays)), split=True)
        return map_tensors(lambda t: t.flatten(0, 1), outputs)

    def describe(self) -> Any:
        return {"front": self.model.hypernet.kind, "weights": _checksum([self.model])}


class ModuleTeacher(Teacher):
    """One module for all rays."""

    def __init__(self, module: nn.Module):
        self.modules = (module,)

    def __call__(self, x: Batch, rays: Tensor) -> Any:
        args, kwargs = arguments(x)
        return self.modules[0](*args, **kwargs)

    def describe(self) -> Any:
        return {"module": type(self.modules[0]).__name__, "weights": _checksum(self.modules)}


class ObjectiveTeacher(Teacher):
    """One module for each objective: part ``j`` of the output is that of module ``j``. Parts are the tensors of the
    output, or the columns of one tensor ``[B, m]``; parts whose names are those of the objectives are taken by name."""

    def __init__(self, modules: Sequence[nn.Module], objectives: Sequence[str]):
        self.modules, self.objectives = tuple(modules), tuple(objectives)

    def __call__(self, x: Batch, rays: Tensor) -> Any:
        args, kwargs = arguments(x)
        outputs, m = [module(*args, **kwargs) for module in self.modules], len(self.modules)
        if isinstance(outputs[0], Mapping) and {*outputs[0]} == {*self.objectives}:
            return {name: outputs[self.objectives.index(name)][name] for name in outputs[0]}
        if len(tensors(outputs[0])) == m:
            own = iter(range(m))
            return map_tensors(lambda *parts: parts[next(own)], *outputs)
        if not isinstance(outputs[0], Tensor) or outputs[0].ndim != 2 or outputs[0].shape[1] != m:
            raise ProblemError(
                "modules of single objectives need an output with a part for each objective",
                got=f"{len(tensors(outputs[0]))} tensor(s)",
                expected=f"{m} tensors, or one tensor [B, {m}]",
                fix="teacher=f, a function of inputs and ray",
            )
        return torch.stack([output[:, j] for j, output in enumerate(outputs)], dim=1)

    def describe(self) -> Any:
        return {"objectives": len(self.modules), "weights": _checksum(self.modules)}


class FunctionTeacher(Teacher):
    """The user's own function of inputs and one ray."""

    def __init__(self, function: Callable[[Batch, Tensor], Any]):
        self.function = function

    def __call__(self, x: Batch, rays: Tensor) -> Any:
        if len(rays) == 1:
            return self.function(x, rays[0])
        parts = split(x, len(rays))
        found = [self.function(map_tensors(lambda t: t[r], parts), ray) for r, ray in enumerate(rays)]  # noqa: B023
        return map_tensors(lambda *each: torch.cat(each), *found)

    def describe(self) -> Any:
        return {"function": describe(self.function)}


def teacher_of(teacher: Any, objectives: Sequence[str]) -> Teacher:
    """Make a teacher of the model, module, list or function that a user passes."""
    if isinstance(teacher, ParetoModel):
        if teacher.objectives != tuple(objectives):
            raise ProblemError(
                "the teacher has other objectives than the problem", got=teacher.objectives, expected=tuple(objectives)
            )
        return FrontTeacher(teacher)
    if isinstance(teacher, nn.Module):
        return ModuleTeacher(teacher)
    if isinstance(teacher, Sequence) and all(isinstance(each, nn.Module) for each in teacher):
        if any(isinstance(each, ParetoModel) for each in teacher) or len(teacher) != len(objectives):
            raise ProblemError(
                "a list of modules has one for each objective",
                got=f"{len(teacher)} " + ", ".join(sorted({type(each).__name__ for each in teacher})),
                expected=f"{len(objectives)} modules",
                fix="hyperfront.ensemble(models, average=...) makes one teacher of several models",
            )
        return ObjectiveTeacher(teacher, objectives)
    if callable(teacher) and not isinstance(teacher, type):
        return FunctionTeacher(teacher)
    raise ProblemError(
        "this cannot teach", got=kind_of(teacher), expected="a model, a module, one module for each objective, or "
        "a function of inputs and ray",
    )  # fmt: skip


def _checksum(modules: Sequence[nn.Module]) -> str:
    """Compute one checksum of all weights."""
    states = [module.state_dict().items() for module in modules]
    found = [checksums.of_tensors({n: t.detach().cpu() for n, t in state if isinstance(t, Tensor)}) for state in states]
    return f"{zlib.crc32(repr(found).encode()):08x}"
