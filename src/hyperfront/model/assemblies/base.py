"""What an assembly is: the way from ``theta``, which a hypernetwork emits, to the tensors of a module."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, NamedTuple

from torch import Tensor, nn

from hyperfront.model.roles import Rest


class Part(NamedTuple):
    """A piece of ``theta``."""

    name: str
    shape: tuple[int, ...]

    @property
    def size(self) -> int:
        return math.prod(self.shape)


class Assembly(ABC):
    """Abstract base; subclasses are final. Made from a module and the names of the parameters that were chosen.

    It holds shapes and no values, so the same assembly serves loop, vmap and plain modules.
    """

    kind: str
    takes: str
    """Which parameters it can work with, in words."""
    names: tuple[str, ...]
    """The tensors that it makes."""
    base: Rest | None
    """Whether the tensors it starts from are trained or frozen; None where it makes them out of ``theta`` alone."""
    parts: tuple[Part, ...]
    """``theta [n]`` is these, end to end."""

    @abstractmethod
    def start(self, module: nn.Module) -> Tensor:
        """``theta [n]`` with which the tensors are those of ``module``."""

    @abstractmethod
    def assemble(self, parts: Sequence[Tensor], shared: dict[str, Tensor]) -> dict[str, Tensor]:
        """The tensors ``names`` from the parts of ``theta``, shaped, and the tensors that all rays share."""

    @abstractmethod
    def describe(self) -> str:
        """What ``theta`` consists of, to follow its size."""

    def options(self) -> dict[str, Any]:
        """The keyword arguments, as JSON, that make the same assembly."""
        return {}
