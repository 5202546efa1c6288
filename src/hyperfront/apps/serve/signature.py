"""What a module takes and gives, in the protocol's words: names, datatypes, and the shape of one row."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor, nn

from hyperfront.apps.serve.tensors import TensorMetadata, datatype
from hyperfront.errors import HyperfrontError
from hyperfront.problem import Problem
from hyperfront.storage.batches import Batch, argument_names

Nest = Callable[[Sequence[Tensor]], Batch]
"""How inputs, in their order, are handed to the module."""
SIZES = (32, 64, 96, 128, 224, 256)
"""Tried in the place of sizes that are free, to see what the outputs look like."""


def inputs_of(problem: Problem | None, module: nn.Module) -> tuple[tuple[TensorMetadata, ...], Nest]:
    """What the module takes, read from an example of the problem or from its data."""
    example = _example(problem)
    parts = example if isinstance(example, tuple | dict) else (example,)
    flat = list(parts.values()) if isinstance(parts, dict) else list(parts)
    if not flat or not all(isinstance(part, Tensor) and part.ndim for part in flat):
        raise HyperfrontError(
            "the module takes more than the protocol can say",
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
    """A row of what the module takes."""
    if problem is None:
        raise HyperfrontError(
            "nothing says what the module takes",
            fix="--problem package.module:factory, or --input NAME:DATATYPE:SIZES for each input",
        )
    if problem.example is not None:
        return problem.example()
    split = problem.split("val" if "val" in problem.sources else "train")
    return problem.inputs(next(iter(split.source.batches(1, torch.device("cpu")))))


def examples(specs: Sequence[TensorMetadata], rows: int) -> list[tuple[Tensor, ...]]:
    """Rows of zeros to try; several of different sizes, where sizes are free."""
    free = any(-1 in spec.shape for spec in specs)
    return [tuple(spec.zeros(rows, free=size) for spec in specs) for size in (SIZES if free else (1,))]


def outputs_of(names: Sequence[str], seen: Sequence[Sequence[Tensor]], rows: int) -> tuple[TensorMetadata, ...]:
    """What the module gives, as ``seen`` for examples of that many rows; a size that is not always the same is free."""
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
