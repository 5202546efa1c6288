"""Batches: any nest of containers with tensors. The first dimension counts rows, unless the problem counts them.

Objects with their own ``to(device)``, such as graphs and packed sequences, are moved and never cut.
"""

from __future__ import annotations

import copy
import dataclasses
import inspect
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

from hyperfront.errors import ProblemError, shown
from hyperfront.storage.containers import PLAIN, how_to_register, is_packed, moves_itself
from hyperfront.storage.nests import map_leaves, map_tensors, named, tensors, things

Batch = Any


def rows(batch: Batch) -> int:
    """Return the number of rows, in which all tensors with a dimension must agree."""
    found = things(batch, is_packed)
    counts = {len(thing) for thing in found if isinstance(thing, Tensor) and thing.ndim}
    if len(counts) != 1 or any(map(moves_itself, found)):
        unknown = next((f"a {type(thing).__name__}" for thing in found if moves_itself(thing)), None)
        own = [(name, tensor) for name, tensor in named(batch, "batch") if tensor.ndim]
        raise ProblemError(
            "the tensors of a batch do not have one number of rows",
            got=unknown or ", ".join(f"{len(tensor)} in {name}" for name, tensor in own) or "no tensor",
            expected="the same first dimension everywhere",
            fix="cut them to as many rows, or say how many a batch has: supervised(..., rows=lambda batch: ...)",
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
    refuse_uncut(batch, "split among rays")
    size, rest = divmod(rows(batch), parts)
    if rest or not size:
        raise ProblemError(
            "a batch cannot be split evenly among the rays of a step",
            got=f"{rows(batch)} rows for {parts} rays",
            expected=f"a multiple of {parts}",
            fix="change the batch size or the rays per step, or share the batch (share_batch=True)",
        )
    return map_tensors(lambda t: t.reshape(parts, size, *t.shape[1:]) if t.ndim else t.expand(parts), batch)


def refuse_uncut(batch: Batch, what: str) -> None:
    """Raise an error if the batch has values for each row that are not cut with the rows: a list of objects that are
    not tensors, an array, or an object of an unregistered type."""
    count = rows(batch)

    def has_one_for_each_row(nest: Any) -> bool:
        return isinstance(nest, list) and len(nest) == count and not tensors(nest)

    strange = [thing for thing in things(batch, has_one_for_each_row) if not isinstance(thing, (Tensor, *PLAIN))]
    if not strange:
        return
    first, kind = strange[0], type(strange[0]).__name__
    listed = has_one_for_each_row(first) and count
    found = f"list of {type(first[0]).__name__}, one for each row," if listed else kind
    raise ProblemError(
        f"a batch with a {found} cannot be {what}",
        expected="tensors, or nests of tensors",
        fix="turn it into a tensor (torch.as_tensor), or pass share_batch=True"
        + ("" if listed else f"; or make its type known: {how_to_register(kind)}"),
    )


def row_range(batch: Batch, start: int, stop: int) -> Batch:
    """Take rows ``start`` to ``stop``."""
    return map_tensors(lambda tensor: tensor[start:stop] if tensor.ndim else tensor, batch)


def take(batch: Batch, index: Tensor) -> Batch:
    """Take the rows of ``index``, which may be on another device."""
    return map_tensors(lambda tensor: tensor.index_select(0, index.to(tensor.device)) if tensor.ndim else tensor, batch)


def to_device(batch: Batch, device: torch.device) -> Batch:
    """Copy the batch to a device. Copies to a GPU may continue after the return; copies from a GPU are complete."""
    at_once = torch.device(device).type == "cuda"

    def move(leaf: Any) -> Any:
        if isinstance(leaf, Tensor):
            if leaf.is_meta and torch.device(device).type != "meta":
                raise ProblemError("a batch has a tensor without values", got="a tensor on the device meta")
            return leaf.to(device, non_blocking=at_once)
        # a copy, since some libraries move things in place
        return (leaf if is_packed(leaf) else copy.copy(leaf)).to(device) if moves_itself(leaf) else leaf

    return map_leaves(move, batch, is_leaf=is_packed)


def named_outputs(output: Any) -> list[tuple[str, Tensor]]:
    """Name the tensors of an output ``output``, or ``output_0`` and so on, or by their keys or fields."""
    has_names = isinstance(output, Mapping) or hasattr(output, "_fields") or dataclasses.is_dataclass(output)
    return named(output, "" if has_names else "output")


def argument_names(module: nn.Module, count: int) -> list[str]:
    """Return the names of the first ``count`` positional arguments of the module.

    >>> argument_names(nn.Linear(1, 1), 1)
    ['input']
    """
    module = getattr(module, "arguments_like", module)  # of an ensemble
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    known = [p.name for p in inspect.signature(module.forward).parameters.values() if p.kind in kinds]
    return [*known, *(f"input_{index}" for index in range(len(known), count))][:count]


def arguments(x: Batch) -> tuple[tuple, dict]:
    """Return arguments to call a module on ``x``: a tuple is positional, a mapping is keywords, else it is one.

    >>> arguments((1, 2)), arguments({"ids": 3}), arguments(4)
    (((1, 2), {}), ((), {'ids': 3}), ((4,), {}))
    """
    if isinstance(x, tuple) and not is_packed(x):
        return x, {}
    if not isinstance(x, Mapping):
        return (x,), {}
    if wrong := [name for name in x if not isinstance(name, str)]:
        raise ProblemError("a batch has a name that is no text", got=shown(wrong[0]), expected="names of arguments")
    return (), dict(x)
