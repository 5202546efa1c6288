"""Random numbers that a module may draw: from PyTorch, Python and NumPy, or from generators of its own."""

from __future__ import annotations

import pickle
import random
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from hyperfront.storage.nests import things


class Randomness:
    """The states of all generators that ``module`` may draw from on ``device``."""

    def __init__(self, device: torch.device, module: nn.Module):
        self.sources: list[tuple[Callable[[], Any], Callable[[Any], Any]]] = [
            (torch.get_rng_state, torch.set_rng_state),
            (random.getstate, random.setstate),
            (np.random.get_state, np.random.set_state),
        ]
        if device.type == "cuda":
            self.sources.append(
                (lambda: torch.cuda.get_rng_state(device), lambda state: torch.cuda.set_rng_state(state, device))
            )
        for layer in module.modules():
            self.sources += filter(None, map(_source, things(list(vars(layer).values()))))

    def states(self) -> list[Any]:
        """Return the present states of the generators."""
        return [get() for get, _ in self.sources]

    def load(self, states: Sequence[Any]) -> None:
        """Set the generators to these states."""
        for (_, put), state in zip(self.sources, states):
            put(state)

    def moved(self, states: Sequence[Any]) -> bool:
        """Return whether numbers were drawn since the generators had these states."""
        return any(_plain(get()) != _plain(state) for (get, _), state in zip(self.sources, states))


def _source(thing: Any) -> tuple[Callable[[], Any], Callable[[Any], Any]] | None:
    if isinstance(thing, torch.Generator):
        return thing.get_state, thing.set_state
    if isinstance(thing, random.Random) and not isinstance(thing, random.SystemRandom):  # which has no state
        return thing.getstate, thing.setstate
    if isinstance(thing, np.random.RandomState):
        return thing.get_state, thing.set_state
    if isinstance(thing, np.random.Generator):
        generator = thing.bit_generator
        return lambda: generator.state, lambda state: setattr(generator, "state", state)
    return None


def _plain(state: Any) -> bytes:
    return state.numpy().tobytes() if isinstance(state, Tensor) else pickle.dumps(state)
