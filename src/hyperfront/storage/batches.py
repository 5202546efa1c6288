"""A batch is any nest of tuples, lists and dicts with tensors whose first dimension counts rows."""

from __future__ import annotations

import inspect
from typing import Any

import torch
from torch import Tensor, nn

from hyperfront.errors import ProblemError
from hyperfront.storage.nests import map_tensors, named, tensors

Batch = Any


def rows(batch: Batch) -> int:
    """The number of rows; all tensors with a dimension must have the same."""
    counts = {len(tensor) for tensor in tensors(batch) if tensor.ndim}
    if len(counts) != 1:
        raise ProblemError(
            "the tensors of a batch do not have one number of rows",
            got=sorted(counts) or "no tensor",
            expected="the same first dimension everywhere",
        )
    return counts.pop()


def split(batch: Batch, parts: int) -> Batch:
    """Reshape ``[B, ...]`` to ``[parts, B / parts, ...]``, with one part for each ray.

    >>> split(torch.arange(4), 2)
    tensor([[0, 1],
            [2, 3]])
    """
    if parts == 1:
        return map_tensors(lambda tensor: tensor.unsqueeze(0), batch)
    refuse_lists(batch, "split among rays")
    size, rest = divmod(rows(batch), parts)
    if rest or not size:
        raise ProblemError(
            "a batch cannot be split evenly among the rays of a step",
            got=f"{rows(batch)} rows for {parts} rays",
            expected=f"a multiple of {parts}",
            fix="change the batch size or the rays per step, or share the batch (share_batch=True)",
        )
    return map_tensors(lambda t: t.reshape(parts, size, *t.shape[1:]) if t.ndim else t.expand(parts), batch)


def refuse_lists(batch: Batch, what: str) -> None:
    """Raise an error for a list with one item for each row that are no tensors: it cannot be cut along rows."""
    count, nests = rows(batch), [batch]
    while nests:
        nest = nests.pop()
        if isinstance(nest, dict | tuple) or (isinstance(nest, list) and tensors(nest)):
            nests += nest.values() if isinstance(nest, dict) else nest
        elif isinstance(nest, list) and len(nest) == count:
            raise ProblemError(
                f"a batch with a list of {type(nest[0]).__name__}, one for each row, cannot be {what}",
                expected="tensors, or nests of tensors",
                fix="turn it into a tensor (torch.as_tensor), or pass share_batch=True",
            )


def row_range(batch: Batch, start: int, stop: int) -> Batch:
    """Take rows ``start`` to ``stop``."""
    return map_tensors(lambda tensor: tensor[start:stop] if tensor.ndim else tensor, batch)


def take(batch: Batch, index: Tensor) -> Batch:
    """Take the rows of ``index``, which may be on another device."""
    return map_tensors(lambda tensor: tensor.index_select(0, index.to(tensor.device)) if tensor.ndim else tensor, batch)


def to_device(batch: Batch, device: torch.device) -> Batch:
    """Copy the batch to a device. Copies to a GPU are not waited for; copies from a GPU are complete on return."""
    at_once = torch.device(device).type == "cuda"
    return map_tensors(lambda tensor: tensor.to(device, non_blocking=at_once), batch)


def named_outputs(output: Any) -> list[tuple[str, Tensor]]:
    """Name the outputs ``output``, or ``output_0`` and so on; dicts and named tuples give their own names."""
    return named(output, "" if isinstance(output, dict) or hasattr(output, "_fields") else "output")


def argument_names(module: nn.Module, count: int) -> list[str]:
    """The names of the first ``count`` positional arguments of the module.

    >>> argument_names(nn.Linear(1, 1), 1)
    ['input']
    """
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    known = [p.name for p in inspect.signature(module.forward).parameters.values() if p.kind in kinds]
    return [*known, *(f"input_{index}" for index in range(len(known), count))][:count]


def arguments(x: Batch) -> tuple[tuple, dict]:
    """Arguments to call a module on ``x``: a tuple is positional, a dict is keywords, anything else is one argument.

    >>> arguments((1, 2)), arguments({"ids": 3}), arguments(4)
    (((1, 2), {}), ((), {'ids': 3}), ((4,), {}))
    """
    if isinstance(x, tuple):
        return x, {}
    return ((), x) if isinstance(x, dict) else ((x,), {})
