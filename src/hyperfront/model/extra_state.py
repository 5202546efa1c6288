"""What layers keep beside tensors, and hand out by ``get_extra_state``: files hold it as JSON and tensors."""

from __future__ import annotations

import json
from collections.abc import Iterator

import torch
from torch import Tensor, nn

from hyperfront.errors import CheckpointError
from hyperfront.storage.trees import pack, unpack

EXTRA = "extra"
"""The name of the JSON, as a tensor of bytes, and the beginning of the names of the tensors."""


def collected(module: nn.Module) -> dict[str, Tensor]:
    """The extra state of all layers, as tensors by name; none if no layer has some."""
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


def put_back(module: nn.Module, stored: dict[str, Tensor]) -> None:
    """Hand the layers what :func:`collected` found."""
    states = json.loads(bytes(stored[EXTRA].tolist()))
    for name, layer in _layers(module):
        if name in states:
            layer.set_extra_state(unpack(states[name], stored))


def _layers(module: nn.Module) -> Iterator[tuple[str, nn.Module]]:
    for name, layer in module.named_modules():
        if getattr(type(layer), "get_extra_state", nn.Module.get_extra_state) is not nn.Module.get_extra_state:
            yield name, layer
