"""The service: a trained model with the names and shapes of its inputs and outputs, and its front."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor

from hyperfront.apps.serve.deciding import Decider
from hyperfront.apps.serve.predictor import Outputs, Predictor, Query
from hyperfront.apps.serve.rows import RowFormat
from hyperfront.apps.serve.selecting import Selector
from hyperfront.apps.serve.signature import examples, inputs_of, outputs_of
from hyperfront.apps.serve.tensors import TensorMetadata
from hyperfront.apps.shared.cache import WeightCache
from hyperfront.errors import HyperfrontError
from hyperfront.front import Front, evaluate
from hyperfront.model import ParetoModel
from hyperfront.problem import Problem
from hyperfront.storage.batches import named_outputs
from hyperfront.storage.nests import tensors
from hyperfront.training.loading import import_factory, load, recorded_problem
from hyperfront.training.runs import RunFolder

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
    """The front that training measured."""
    select: Selector | None = None
    decider: Decider | None = None
    """Makes probabilities and labels of outputs, if the problem defines decisions."""
    table: RowFormat | None = None
    """Predicts rows with column names, if the problem defines how."""
    default_ray: np.ndarray | None = None
    """The ray ``[1, m]`` of requests without one."""
    version: str = "1"
    """A positive number."""

    @cached_property
    def all_outputs(self) -> tuple[TensorMetadata, ...]:
        """The outputs of the module, then the outputs that a request gets only if it names them."""
        return self.outputs + (() if self.decider is None else self.decider.specs)

    @cached_property
    def row_bytes(self) -> int:
        """The bytes of all outputs for one row, with 1 in place of each free size."""
        return sum(abs(spec.size) * spec.dtype.itemsize for spec in self.outputs)

    @cached_property
    def by_name(self) -> dict[str, TensorMetadata]:
        """The inputs by name, with the ray."""
        return {spec.name: spec for spec in (self.ray, *self.inputs)}

    @property
    def ray(self) -> TensorMetadata:
        return TensorMetadata(RAY, "FP32", (len(self.objectives),))


def open_run(
    run: str | Path,
    *,
    name: str | None = None,
    version: str = "1",
    target: str | None = None,
    problem: str | None = None,
    which: Literal["best", "last"] | None = None,
    inputs: Sequence[TensorMetadata] = (),
    cache_bytes: int,
    at: Sequence[float] | None = None,
    data_dir: str | Path | None = None,
) -> Service:
    """Make the service of a run folder or checkpoint file.

    Built-in problems are known by name. For others, ``target`` and ``problem`` are ``"package.module:factory"``, or
    ``inputs`` states the inputs of the module. ``at`` is the ray of requests without one; by default the ray that
    training chose.
    """
    stated: Any = import_factory(problem) if problem else None
    make = stated.make_target if isinstance(stated, Problem) and target is None else None
    model = load(run, make() if make else target, which=which)
    if stated is None and "problem" in model.record:
        stated = recorded_problem(model.record, most=model.target.n, data_dir=data_dir)
    if not isinstance(stated, Problem | None):
        raise HyperfrontError("the factory made no problem", got=type(stated).__name__, expected="hyperfront.Problem")
    path = Path(run).resolve()
    stored = RunFolder(path).front
    front = Front.load(stored) if path.is_dir() and stored.exists() else None
    own = path.name if path.is_dir() else path.stem
    at = at or (RunFolder(path).chosen_ray() if path.is_dir() else None)
    service = serve_model(model, stated, name=name or own, inputs=inputs, cache_bytes=cache_bytes, front=front, at=at)
    return replace(service, version=version)


def serve_model(
    model: ParetoModel,
    problem: Problem | None = None,
    *,
    name: str = "model",
    inputs: Sequence[TensorMetadata] = (),
    cache_bytes: int = 2**28,
    front: Front | None = None,
    at: Sequence[float] | None = None,
) -> Service:
    """Make the service of a model in memory; ``inputs`` state the inputs of its module, if no problem does, and ``at``
    is the ray of requests without one."""
    cache = WeightCache(model, cache_bytes)
    specs, nest, names, flatten = tuple(inputs), tuple, None, lambda output: tuple(tensors(output))
    if problem is not None and problem.function is not None:
        front = front or evaluate(model, problem)
        names, flatten = ["theta", "losses"], _point_and_losses(problem)
    elif not specs:
        specs, nest = inputs_of(problem, model.target.skeleton)
    if RAY in {spec.name for spec in specs}:
        raise HyperfrontError(
            "the module has an input with the name of the ray", fix="give its inputs other names with --input"
        )
    predictor = Predictor(cache, nest, flatten)
    separate = model.target.batchnorm == "batch" and bool(model.target.norms)
    outputs = _try_out(predictor, specs, names, alone=not separate)
    decider = _decider(problem, predictor, specs)
    return Service(
        name=name,
        objectives=model.objectives,
        inputs=specs,
        outputs=outputs,
        predict=predictor,
        seconds=predictor.seconds,
        separate=separate,
        cache=cache,
        front=front,
        select=None if front is None and problem is None else Selector(model, problem, front),
        decider=decider,
        table=_table(problem, decider),
        default_ray=None if at is None else model.check(at).float().cpu().numpy(),
    )


def _decider(problem: Problem | None, predictor: Predictor, specs: Sequence[TensorMetadata]) -> Decider | None:
    """Make the decider of a problem that defines decisions."""
    decision = None if problem is None else problem.presentation.decision
    if decision is None or problem is None or problem.function is not None:
        return None
    with torch.inference_mode():
        at = predictor.cache.get(np.full((1, predictor.cache.model.m), 1, np.float32))[0]
        return Decider(decision, predictor.cache.run(at, predictor.nest(examples(specs, 2)[0])))


def _table(problem: Problem | None, decider: Decider | None) -> RowFormat | None:
    shown = None if problem is None else problem.presentation
    return None if shown is None or shown.encode is None else RowFormat(shown.columns, shown.encode, decider)


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
