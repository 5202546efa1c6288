"""The graph to export: a module with named tensors as inputs, and the names of its outputs.

    front       ray [m], inputs [B, ...]  ->  outputs [B, ...]         hypernetwork and target in one graph
    one ray     inputs [B, ...]           ->  outputs [B, ...]         the plain module

A problem without data has no inputs, and two outputs: ``theta``, the point, and its ``losses [m]``.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch
from torch import Tensor, nn

from hyperfront.errors import HyperfrontError
from hyperfront.errors.signatures import checked
from hyperfront.export.tracing import quiet, reason
from hyperfront.model import ParetoModel
from hyperfront.model.substitution import called
from hyperfront.problem import Problem
from hyperfront.storage.batches import Batch, argument_names, arguments, named_outputs, rows
from hyperfront.storage.nests import map_tensors, named, tensors

RAY = "ray"
ROWS = 4  # rows of an example


class FrontModule(nn.Module):
    """``ray [m], inputs -> outputs``. The ray is divided by its sum, since rays are not checked outside Python."""

    def __init__(self, model: ParetoModel, nest: Callable[[Iterable[Tensor]], Batch], finish: Callable[[Any], Any]):
        super().__init__()
        self.model, self.nest, self.finish = model, nest, finish

    def forward(self, ray: Tensor, *inputs: Tensor) -> Any:
        rays = self.model.align((ray / ray.sum())[None])
        theta, x = self.model.hypernet(rays), self.nest(inputs)
        outputs = self.model.target.map(called, theta, rays, x, split=False)
        return self.finish(map_tensors(lambda tensor: tensor.squeeze(0), outputs))


class PlainModule(nn.Module):
    """``inputs -> outputs`` of the network at one ray."""

    def __init__(self, module: nn.Module, nest: Callable[[Iterable[Tensor]], Batch], finish: Callable[[Any], Any]):
        super().__init__()
        self.module, self.nest, self.finish = module, nest, finish

    def forward(self, *inputs: Tensor) -> Any:
        args, kwargs = arguments(self.nest(inputs))
        return self.finish(self.module(*args, **kwargs))


@dataclass(frozen=True, eq=False)
class Graph:
    """A module to be traced, with an example of its inputs."""

    module: nn.Module
    inputs: dict[str, Tensor]
    """Inputs by name, the ray first. The first dimension of the others is the batch, if they all have the same."""
    outputs: tuple[str, ...]
    document: dict[str, Any]
    """Objectives, convention of the rays and the ray (None: all), stored in the file."""

    @property
    def batched(self) -> tuple[str, ...]:
        """The inputs that have a row for each example."""
        return tuple(name for name, tensor in self.inputs.items() if name != RAY and tensor.ndim)

    @cached_property
    def program(self) -> torch.export.ExportedProgram:
        """The graph in PyTorch's own operations, for a batch of any size."""
        batch = torch.export.Dim("batch", min=1)
        shapes: dict[str, Any] = {name: {0: batch} if name in self.batched else None for name in self.inputs}
        ray = {RAY: shapes.pop(RAY)} if RAY in shapes else {}
        dynamic = ray | {"inputs": tuple(shapes.values())} if self.batched else None
        empty = tuple(
            torch.zeros_like(tensor) for tensor in self.inputs.values()
        )  # a .pt2 file stores the traced inputs
        try:
            with quiet(), torch.no_grad():
                return torch.export.export(self.module, empty, dynamic_shapes=dynamic, strict=False)
        except Exception as error:  # any error of the tracer in a user's module
            raise HyperfrontError(
                "torch.export cannot trace the module",
                got=reason(error),
                expected="a forward without branches on values, for batches of any size",
            ) from error

    @torch.no_grad()
    def __call__(self, inputs: dict[str, Tensor]) -> list[Tensor]:
        """Compute the outputs in PyTorch, in the order of their names."""
        return tensors(self.module(*inputs.values()))


@checked
def graph(model: ParetoModel, like: Batch | Problem, ray: Any = None) -> Graph:
    """Make the graph of the whole front, or of one ``ray``, on the CPU and in evaluation mode.

    ``like`` is a batch of inputs of the module, whose shapes and types matter, not their values. Or it is a problem,
    whose data give such a batch.
    """
    problem = like if isinstance(like, Problem) else None
    if problem:
        problem.check_model(model)
    batch = example(problem) if problem else map_tensors(lambda t: t.detach().cpu(), like)
    batch = map_tensors(lambda t: torch.cat([t, t]) if t.ndim and len(t) == 1 else t, batch)  # 1 would be a constant
    finish = _analytic(problem) if problem and not problem.has_data else _identity

    def nest(flat: Iterable[Tensor]) -> Batch:
        left = iter(flat)
        return map_tensors(lambda _: next(left), batch)

    inputs = _named_inputs(model.target.skeleton, batch)
    document: dict[str, Any] = {"objectives": list(model.objectives), "convention": model.record.get("convention")}
    if ray is None:
        own = copy.deepcopy(model).cpu().eval()
        own.target.stacking.mode = "loop"
        module: nn.Module = FrontModule(own, nest, finish)
        first = own.check([1 / model.m] * model.m)[0]
        inputs = {RAY: first, **inputs}
        document["ray"] = None
    else:
        module = PlainModule(model.at(ray).cpu(), nest, finish)
        document["ray"] = model.check(ray)[0].tolist()
    module.eval().requires_grad_(False)
    with torch.no_grad():
        output = module(*inputs.values())
    names = tuple(f"{name}_output" if name in inputs else name for name, _ in named_outputs(output))
    if not names:
        raise HyperfrontError("the module returns no tensor", got=type(model.target.skeleton).__name__)
    return Graph(module, inputs, names, document)


def example(problem: Problem) -> Batch:
    """A few rows of the inputs of the problem's module."""
    if not problem.has_data:
        return ()
    split = problem.split("val" if "val" in problem.sources else "train")
    batch = problem.inputs(next(iter(split.source.batches(ROWS, torch.device("cpu")))))
    return map_tensors(lambda t: t[:ROWS].clone() if t.ndim else t, batch)


def _named_inputs(module: nn.Module, batch: Batch) -> dict[str, Tensor]:
    """The tensors of a batch, by the names of the parameters that take them."""
    args, kwargs = arguments(batch)
    parameters = argument_names(module, len(args))
    found = [pair for name, value in [*zip(parameters, args), *kwargs.items()] for pair in named(value, name)]
    inputs = {f"{name}_input" if name == RAY else name: tensor for name, tensor in found}
    if inputs:
        rows(batch)  # or an error: a batch with one number of rows
    return inputs


def _identity(output: Any) -> Any:
    return output


def _analytic(problem: Problem) -> Callable[[Tensor], dict[str, Tensor]]:
    def finish(point: Tensor) -> dict[str, Tensor]:
        assert problem.function is not None
        return {"theta": point, "losses": problem.units.apply(problem.function(point))}

    return finish
