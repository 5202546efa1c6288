"""States of optimizers and schedules, split into JSON and a flat table of tensors."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from hyperfront.errors import CheckpointError


def pack(state: Any, prefix: str, tensors: dict[str, Tensor]) -> Any:
    """Convert ``state`` to JSON, with its tensors moved into the table under names that begin with ``prefix``.

    >>> import torch
    >>> table = {}
    >>> pack({0: {"step": torch.ones(1)}, "lr": [0.1]}, "opt", table)
    {'dict': [[0, {'dict': [['step', {'tensor': 'opt.0.step'}]]}], ['lr', [0.1]]]}
    """
    if isinstance(state, Tensor):
        while prefix in tensors:  # keys with the same text, such as 0 and "0"
            prefix += "'"
        tensors[prefix] = state
        return {"tensor": prefix}
    if isinstance(state, dict):  # as pairs, since JSON has no integer keys
        return {"dict": [[key, pack(value, f"{prefix}.{key}", tensors)] for key, value in state.items()]}
    if isinstance(state, list):
        return [pack(value, f"{prefix}.{index}", tensors) for index, value in enumerate(state)]
    if isinstance(state, tuple):
        return {"tuple": pack(list(state), prefix, tensors)}
    if state is None or isinstance(state, bool | int | float | str):
        return state
    raise CheckpointError(
        "the training state holds a value that is no number, text or tensor",
        got=f"{type(state).__name__} at {prefix}",
        fix="use an optimizer and a schedule with plain states",
    )


def unpack(tree: Any, tensors: dict[str, Tensor]) -> Any:
    """The inverse of :func:`pack`."""
    if isinstance(tree, list):
        return [unpack(value, tensors) for value in tree]
    if isinstance(tree, dict):
        (kind, content), *_ = tree.items()
        if kind == "tensor":
            return tensors[content]
        if kind == "tuple":
            return tuple(unpack(content, tensors))
        return {key: unpack(value, tensors) for key, value in content}
    return tree
