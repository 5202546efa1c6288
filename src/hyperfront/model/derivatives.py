"""Repeat calls with gradients: some modules take derivatives themselves, as physics-informed networks do."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from hyperfront.storage.nests import map_tensors

WORDS = ("does not require grad", "appears to not have been used in the graph")
"""Parts of PyTorch's messages about a derivative of something that was computed without a graph."""


def with_gradients(error: RuntimeError, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """Call ``function(*args, **kwargs)`` again with gradients switched on, if it raised the ``error`` for lack of them,
    and detach the result. Only failed calls are repeated like this, since a graph takes memory."""
    if torch.is_grad_enabled() or not any(words in str(error) for words in WORDS):
        raise error
    with torch.inference_mode(False), torch.enable_grad():
        found = function(*_usable(args), **_usable(kwargs))
    return map_tensors(torch.Tensor.detach, found)


def retried(function: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap ``function`` so that a failed call is repeated by :func:`with_gradients`."""

    def tried(*args: Any) -> Any:
        try:
            return function(*args)
        except RuntimeError as error:
            return with_gradients(error, function, *args)

    return tried


def _usable(nest: Any) -> Any:
    """Copy tensors of inference mode: graphs accept the copies, but not the tensors."""
    return map_tensors(lambda tensor: tensor.clone() if tensor.is_inference() else tensor, nest)
