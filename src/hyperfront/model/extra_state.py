"""Extra state: store what layers return from ``get_extra_state`` as JSON and tensors."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor, nn

from hyperfront.errors import CheckpointError
from hyperfront.storage.trees import pack, unpack

EXTRA = "extra"
"""The name of the JSON, which is a tensor of bytes. The names of the tensors begin with it."""


def collected(module: nn.Module) -> dict[str, Tensor]:
    """Return the extra state of all layers as tensors by name; none if no layer has some."""
    states, found = {}, dict[str, Tensor]()
    for name, layer in _layers(module):
        state = layer.get_extra_state()
        try:
            states[name] = pack(state, f"{EXTRA}.{name}", found)
            json.dumps(states[name])
        except (CheckpointError, TypeError, ValueError) as error:
            raise CheckpointError(
                "the extra state of a layer cannot be stored without code",
                got=f"{name}: {getattr(error, 'got', None) or error}",
                expected="numbers, texts, tensors, and lists, tuples and dicts of them from get_extra_state()",
            ) from None
    if not states:
        return {}
    text = json.dumps(states).encode()
    return {EXTRA: torch.tensor(list(text), dtype=torch.uint8)} | {n: t.detach().clone() for n, t in found.items()}


def taken_out(module: nn.Module, state_dict: dict[str, Any], prefix: str) -> None:
    """Take the entries of :func:`collected` out of a state dict, and hand them to the layers."""
    names = [name for name in state_dict if name == prefix + EXTRA or name.startswith(f"{prefix}{EXTRA}.")]
    stored = {name.removeprefix(prefix): state_dict.pop(name) for name in names}
    states = json.loads(bytes(stored[EXTRA].tolist())) if stored else {}
    for name, layer in _layers(module):
        if name in states:
            layer.set_extra_state(unpack(states[name], stored))


def _layers(module: nn.Module) -> Iterator[tuple[str, nn.Module]]:
    for name, layer in module.named_modules():
        if getattr(type(layer), "get_extra_state", nn.Module.get_extra_state) is not nn.Module.get_extra_state:
            yield name, layer
