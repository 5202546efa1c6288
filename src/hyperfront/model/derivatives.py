"""Functions that take derivatives themselves, such as a physics-informed network, where gradients are switched off."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from hyperfront.storage.nests import map_tensors

WORDS = ("does not require grad", "appears to not have been used in the graph")
"""PyTorch's, for a derivative of something that was computed without a graph."""


def with_gradients(error: RuntimeError, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """``function(*args, **kwargs)`` again, with gradients switched on, if that is what the ``error`` is about; the
    result is detached. Called only where a call failed, since a graph takes memory."""
    if torch.is_grad_enabled() or not any(words in str(error) for words in WORDS):
        raise error
    with torch.inference_mode(False), torch.enable_grad():
        found = function(*_usable(args), **_usable(kwargs))
    return map_tensors(torch.Tensor.detach, found)


def retried(function: Callable[..., Any]) -> Callable[..., Any]:
    """``function``, which tries :func:`with_gradients` where it fails."""

    def tried(*args: Any) -> Any:
        try:
            return function(*args)
        except RuntimeError as error:
            return with_gradients(error, function, *args)

    return tried


def _usable(nest: Any) -> Any:
    """Tensors of inference mode take no part in graphs, and their copies do."""
    return map_tensors(lambda tensor: tensor.clone() if tensor.is_inference() else tensor, nest)
