"""The service: a trained model with the names and shapes of its inputs and outputs, and its front."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor

from hyperfront.apps.serve.predictor import Outputs, Predictor, Query
from hyperfront.apps.serve.signature import examples, inputs_of, outputs_of
from hyperfront.apps.serve.tensors import TensorMetadata
from hyperfront.apps.shared.cache import WeightCache
from hyperfront.apps.shared.choice import Choice
from hyperfront.errors import HyperfrontError
from hyperfront.front import Front, evaluate
from hyperfront.model import ParetoModel
from hyperfront.problem import Problem
from hyperfront.storage.batches import named_outputs
from hyperfront.storage.nests import tensors
from hyperfront.training.runs import RunFolder, import_factory, load, recorded_problem

RAY = "ray"


@dataclass(frozen=True, eq=False)
class Service:
    """All data of the routes; ``predict`` answers several queries at once, each with its outputs."""

    name: str
    objectives: tuple[str, ...]
    inputs: tuple[TensorMetadata, ...]
    """The inputs, without the ray."""
    outputs: tuple[TensorMetadata, ...]
    predict: Callable[[Sequence[Query]], list[Outputs]]
    seconds: Callable[[Sequence[Query]], float]
    """Estimates the time of ``predict``."""
    separate: bool = False
    """Whether each query needs its own batch: a network that normalizes by its batch mixes queries otherwise."""
    cache: WeightCache | None = None
    front: Front | None = None

    @property
    def ray(self) -> TensorMetadata:
        return TensorMetadata(RAY, "FP32", (len(self.objectives),))


def open_run(
    run: str | Path,
    *,
    name: str | None = None,
    target: str | None = None,
    problem: str | None = None,
    which: Literal["best", "last"] | None = None,
    inputs: Sequence[TensorMetadata] = (),
    cache_bytes: int,
) -> Service:
    """Make the service of a run folder or checkpoint file.

    Built-in problems are known by name. For others, ``target`` and ``problem`` are ``"package.module:factory"``, or
    ``inputs`` states the inputs of the module.
    """
    model = load(run, target, which=which)
    stated: Any = import_factory(problem) if problem else None
    if stated is None and "problem" in model.record:
        stated = recorded_problem(model.record, most=model.target.n)
    if not isinstance(stated, Problem | None):
        raise HyperfrontError("the factory made no problem", got=type(stated).__name__, expected="hyperfront.Problem")
    path = Path(run).resolve()
    stored = RunFolder(path).front
    front = Front.load(stored) if path.is_dir() and stored.exists() else None
    own = path.name if path.is_dir() else path.stem
    return serve_model(model, stated, name=name or own, inputs=inputs, cache_bytes=cache_bytes, front=front)


def serve_model(
    model: ParetoModel,
    problem: Problem | None = None,
    *,
    name: str = "model",
    inputs: Sequence[TensorMetadata] = (),
    cache_bytes: int = 2**28,
    front: Front | None = None,
) -> Service:
    """Make the service of a model in memory; ``inputs`` state the inputs of its module, if no problem does."""
    cache = WeightCache(model, cache_bytes)
    specs, nest, names, flatten = tuple(inputs), tuple, None, lambda output: tuple(tensors(output))
    if problem is not None and problem.function is not None:
        front = front or evaluate(model, problem)
        front = replace(front, evaluator=lambda rays: evaluate(model, problem, rays))
        names, flatten = ["theta", "losses"], _point_and_losses(problem)
    elif not specs:
        specs, nest = inputs_of(problem, model.target.skeleton)
    if RAY in {spec.name for spec in specs}:
        raise HyperfrontError(
            "the module has an input with the name of the ray", fix="give its inputs other names with --input"
        )
    predictor = Predictor(cache, nest, flatten)
    separate = model.target.batchnorm == "batch" and bool(model.target.norms)
    return Service(
        name=name,
        objectives=model.objectives,
        inputs=specs,
        outputs=_try_out(predictor, specs, names, alone=not separate),
        predict=predictor,
        seconds=predictor.seconds,
        separate=separate,
        cache=cache,
        front=front,
    )


def operating_point(front: Front, asked: Choice) -> dict[str, Any]:
    """The operating point as JSON: its ray, with the losses and scores there."""
    found = asked.select(front).document()
    values = found.pop("values")
    return found | {
        "losses": {name: values[name] for name in front.objectives},
        "scores": {name: values[name] for name in front.scores},
    }


def _try_out(
    predictor: Predictor, specs: Sequence[TensorMetadata], names: list[str] | None, *, alone: bool
) -> tuple[TensorMetadata, ...]:
    """Run the network on rows of zeros, and time it; ``alone`` tells whether one row can be run."""
    m, rows = predictor.cache.model.m, 2 if specs else 1
    ray = np.full((1, m), 1 / m, np.float32)
    seen: list[Outputs] = []
    error: Exception | None = None
    for inputs in examples(specs, rows):
        try:
            with torch.inference_mode():
                output = predictor.cache.run(predictor.cache.get(ray)[0], predictor.nest(inputs))
            names = names or [name for name, _ in named_outputs(output)]
            seen += predictor([Query(ray, inputs, rows)])
        except (RuntimeError, ValueError, IndexError, TypeError) as found:
            error = found
            continue
        predictor.measure(tuple(tensor[:1] for tensor in inputs) if alone else inputs)
    if not seen or names is None:
        raise HyperfrontError("the module fails for inputs of the stated shapes", got=error) from error
    return outputs_of(names, seen, rows)


def _point_and_losses(problem: Problem) -> Callable[[Tensor], Outputs]:
    """The outputs of an analytic problem for one ray: its point, and the losses there."""
    function = problem.function
    assert function is not None
    return lambda point: (point[None], problem.units.apply(function(point))[None])
