"""What is served: a trained model with the names and shapes of its inputs and outputs, and its front."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from hyperfront.batches import Batch, tensors
from hyperfront.errors import HyperfrontError
from hyperfront.front import Front, evaluate
from hyperfront.model import ParetoModel
from hyperfront.problem import Problem
from hyperfront.problems import build
from hyperfront.runs import RunFolder, import_factory, load
from hyperfront.serve.cache import WeightCache
from hyperfront.serve.predictor import Outputs, Predictor
from hyperfront.serve.tensors import TensorSpec, datatype

RAY = "ray"
SIZES = (32, 64, 96, 128, 224, 256)
"""Tried in the place of sizes that are free, to see what the outputs look like."""


class Query(NamedTuple):
    """What one request asks."""

    rays: np.ndarray
    """``[1, m]`` for all rows, or ``[rows, m]``; single precision."""
    inputs: tuple[Tensor, ...]
    rows: int


@dataclass(frozen=True, eq=False)
class Service:
    """Everything that the routes need to know; ``predict`` answers queries together, each with its outputs."""

    name: str
    objectives: tuple[str, ...]
    inputs: tuple[TensorSpec, ...]
    """Without the ray."""
    outputs: tuple[TensorSpec, ...]
    predict: Callable[[Sequence[Query]], list[Outputs]]
    separate: bool = False
    """Whether queries must not meet: a network that normalises by its batch gives other outputs in other company."""
    cache: WeightCache | None = None
    front: Front | None = None

    @property
    def ray(self) -> TensorSpec:
        return TensorSpec(RAY, "FP32", (len(self.objectives),))


def open_run(
    run: str | Path,
    *,
    name: str | None = None,
    target: str | None = None,
    problem: str | None = None,
    which: Literal["best", "last"] | None = None,
    inputs: Sequence[TensorSpec] = (),
    cache_bytes: int,
) -> Service:
    """The service of a run folder or checkpoint file.

    Built-in problems are known by name. For others, ``target`` and ``problem`` are ``"package.module:factory"``, or
    ``inputs`` says what the module takes.
    """
    model = load(run, target, which=which)
    stated: Any = import_factory(problem) if problem else None
    if stated is None and "problem" in model.record:
        stated = build(model.record["problem"], **model.record["arguments"])
    if not isinstance(stated, Problem | None):
        raise HyperfrontError("the factory made no problem", got=type(stated).__name__, expected="hyperfront.Problem")
    path = Path(run).resolve()
    stored = RunFolder(path).front
    front = Front.load(stored) if path.is_dir() and stored.exists() else None
    return serve_model(model, stated, name=name or path.stem, inputs=inputs, cache_bytes=cache_bytes, front=front)


def serve_model(
    model: ParetoModel,
    problem: Problem | None = None,
    *,
    name: str = "model",
    inputs: Sequence[TensorSpec] = (),
    cache_bytes: int = 2**28,
    front: Front | None = None,
) -> Service:
    """The service of a model in memory."""
    cache = WeightCache(model, cache_bytes)
    if problem is not None and problem.function is not None:
        front = front or evaluate(model, problem)
        front = replace(front, evaluator=lambda rays: evaluate(model, problem, rays))
        nest, specs = (lambda _: ()), ()
        predictor = Predictor(cache, nest, _point_and_losses(problem))
        names = ["theta", "losses"]
    else:
        example = None if inputs else _example(problem)
        specs = tuple(inputs) or _specs(example, model.target.skeleton)
        nest = _nest(example)
        predictor = Predictor(cache, nest, lambda output: tuple(tensors(output)))
        names = None
    if RAY in {spec.name for spec in specs}:
        raise HyperfrontError(
            "the module has an input with the name of the ray", fix="give its inputs other names with --input"
        )
    return Service(
        name=name,
        objectives=model.objectives,
        inputs=specs,
        outputs=_outputs(model, cache, nest, predictor, specs, names),
        predict=predictor,
        separate=model.target.batchnorm == "batch" and bool(model.target.norms),
        cache=cache,
        front=front,
    )


def _point_and_losses(problem: Problem) -> Callable[[Tensor], Outputs]:
    """What an analytic problem gives for one ray: its point, and the losses there."""
    function = problem.function
    assert function is not None
    return lambda point: (point[None], problem.units.apply(function(point))[None])


# ---- inputs ----------------------------------------------------------------------------------------------------------


def _example(problem: Problem | None) -> Batch:
    """Some rows of what the module takes, to read names, types and shapes from."""
    if problem is None:
        raise HyperfrontError(
            "nothing says what the module takes",
            fix="--problem package.module:factory, or --input NAME:DATATYPE:SIZES for each input",
        )
    if problem.example is not None:
        return problem.example()
    split = problem.split("val" if "val" in problem.sources else "train")
    return problem.inputs(next(iter(split.source.batches(1, torch.device("cpu")))))


def _specs(example: Batch, module: nn.Module) -> tuple[TensorSpec, ...]:
    flat = example if isinstance(example, tuple | dict) else (example,)
    if not all(isinstance(part, Tensor) and part.ndim for part in (flat.values() if isinstance(flat, dict) else flat)):
        raise HyperfrontError(
            "the module takes more than the protocol can say",
            got=type(example).__name__,
            expected="one tensor, a tuple or a dict of tensors, rows first",
        )
    named = flat if isinstance(flat, dict) else dict(zip(_argument_names(module, len(flat)), flat, strict=True))
    return tuple(
        TensorSpec(name, datatype(part.dtype, f"the input {name!r}"), tuple(part.shape[1:]))
        for name, part in named.items()
    )


def _argument_names(module: nn.Module, count: int) -> list[str]:
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    named = [p.name for p in inspect.signature(module.forward).parameters.values() if p.kind in kinds]
    return [*named, *(f"input_{index}" for index in range(len(named), count))][:count]


def _nest(example: Batch) -> Callable[[Sequence[Tensor]], Batch]:
    """How the inputs, in their order, are handed to the module."""
    if isinstance(example, dict):
        keys = tuple(example)
        return lambda flat: dict(zip(keys, flat))
    return tuple


# ---- outputs ---------------------------------------------------------------------------------------------------------


def _outputs(
    model: ParetoModel,
    cache: WeightCache,
    nest: Callable[[Sequence[Tensor]], Batch],
    predictor: Predictor,
    specs: Sequence[TensorSpec],
    names: list[str] | None,
) -> tuple[TensorSpec, ...]:
    """Names, types and shapes of what the network gives for rows of zeros."""
    rays = np.full((1, model.m), 1 / model.m, np.float32)
    free = any(-1 in spec.shape for spec in specs)
    seen: list[tuple[list[str], Outputs]] = []
    error: Exception | None = None
    for size in SIZES if free else (1,):
        rows = 2 if specs else 1
        inputs = tuple(spec.zeros(rows, free=size) for spec in specs)
        try:
            with torch.inference_mode():
                output = cache.run(cache.get(rays)[0], nest(inputs))
            found = predictor([Query(rays, inputs, rows)])[0]
            predictor.measure(tuple(tensor[:1] for tensor in inputs))
        except (RuntimeError, ValueError, IndexError, TypeError) as problem:
            error = problem
            continue
        seen.append((names or _output_names(output), found))
    if not seen:
        raise HyperfrontError("the module does not take the inputs it is said to take", got=error) from error
    rows = 2 if specs else 1
    (called, first), *others = seen
    if not first or any(len(tensor.shape) < 1 or len(tensor) != rows for tensor in first):
        raise HyperfrontError(
            "the outputs of the module do not have one row for each row of its inputs",
            got=[list(tensor.shape) for tensor in first],
            expected=f"[{rows}, ...] for {rows} rows",
        )
    return tuple(
        TensorSpec(
            name,
            datatype(tensor.dtype, f"the output {name!r}"),
            tuple(
                size if all(other[index].shape[axis] == size for _, other in others) else -1
                for axis, size in enumerate(tensor.shape)
                if axis
            ),
        )
        for index, (name, tensor) in enumerate(zip(called, first, strict=True))
    )


def _output_names(output: Any, prefix: str = "output") -> list[str]:
    """``output``, ``output_0`` and so on; the keys of a dict and the fields of a named tuple are names already."""
    if isinstance(output, Tensor):
        return [prefix]
    if isinstance(output, dict):
        items = {str(key): value for key, value in output.items()}
    elif isinstance(output, tuple | list):
        fields = getattr(output, "_fields", None) or [f"{prefix}_{index}" for index in range(len(output))]
        items = dict(zip(fields, output))
    else:
        return []
    inner = {key if prefix == "output" or key.startswith(prefix) else f"{prefix}_{key}": v for key, v in items.items()}
    return [name for key, value in inner.items() for name in _output_names(value, key)]
