"""The signature of a module: names, datatypes and shapes of its inputs and outputs, as the protocol states them."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor, nn

from hyperfront.apps.serve.tensors import TensorMetadata, datatype
from hyperfront.errors import HyperfrontError
from hyperfront.problem import Problem
from hyperfront.storage.batches import Batch, argument_names

Nest = Callable[[Sequence[Tensor]], Batch]
"""Arranges the inputs, given in order, as the module takes them."""
SIZES = (32, 64, 96, 128, 224, 256)
"""Sizes tried for free dimensions, to find the shapes of the outputs."""


def inputs_of(problem: Problem | None, module: nn.Module) -> tuple[tuple[TensorMetadata, ...], Nest]:
    """The inputs of the module, read from an example of the problem or from its data."""
    example = _example(problem)
    parts = example if isinstance(example, tuple | dict) else (example,)
    flat = list(parts.values()) if isinstance(parts, dict) else list(parts)
    if not flat or not all(isinstance(part, Tensor) and part.ndim for part in flat):
        raise HyperfrontError(
            "the protocol cannot describe the inputs of the module",
            got=type(example).__name__,
            expected="one tensor, a tuple or a dict of tensors, rows first",
        )
    names = list(parts) if isinstance(parts, dict) else argument_names(module, len(flat))
    specs = tuple(
        TensorMetadata(name, datatype(part.dtype, f"the input {name!r}"), tuple(part.shape[1:]))
        for name, part in zip(names, flat, strict=True)
    )
    return specs, (lambda given: dict(zip(names, given))) if isinstance(parts, dict) else tuple


def _example(problem: Problem | None) -> Batch:
    """One row of the module's input."""
    if problem is None:
        raise HyperfrontError(
            "the inputs of the module are unknown",
            fix="--problem package.module:factory, or --input NAME:DATATYPE:SIZES for each input",
        )
    if problem.example is not None:
        return problem.example()
    split = problem.split("val" if "val" in problem.sources else "train")
    return problem.inputs(next(iter(split.source.batches(1, torch.device("cpu")))))


def examples(specs: Sequence[TensorMetadata], rows: int) -> list[tuple[Tensor, ...]]:
    """Rows of zeros to try; several of different sizes, if sizes are free."""
    free = any(-1 in spec.shape for spec in specs)
    return [tuple(spec.zeros(rows, free=size) for spec in specs) for size in (SIZES if free else (1,))]


def outputs_of(names: Sequence[str], seen: Sequence[Sequence[Tensor]], rows: int) -> tuple[TensorMetadata, ...]:
    """The outputs of the module, ``seen`` for examples of ``rows`` rows; a size that varies is free."""
    first = seen[0]
    if not first or any(tensor.ndim < 1 or len(tensor) != rows for tensor in first):
        raise HyperfrontError(
            "the outputs of the module do not have one row for each row of its inputs",
            got=[list(tensor.shape) for tensor in first],
            expected=f"[{rows}, ...] for {rows} rows",
        )
    return tuple(
        TensorMetadata(
            name,
            datatype(tensor.dtype, f"the output {name!r}"),
            tuple(
                size if all(other[index].shape[axis] == size for other in seen) else -1
                for axis, size in enumerate(tensor.shape[1:], start=1)
            ),
        )
        for index, (name, tensor) in enumerate(zip(names, first, strict=True))
    )
