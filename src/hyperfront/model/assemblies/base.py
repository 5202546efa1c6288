"""The abstract assembly: it makes the tensors of a module from ``theta``, the output of a hypernetwork."""

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
    """Abstract base; subclasses are final. An assembly is made from a module and the names of chosen parameters.

    It holds shapes and no values, so the same assembly serves loop, vmap and plain modules.
    """

    kind: str
    takes: str
    """The parameters that it can make, in words."""
    names: tuple[str, ...]
    """The names of the tensors that it makes."""
    base: Rest | None
    """Whether the tensors that it adds to are trained or frozen; None if it makes tensors from ``theta`` alone."""
    parts: tuple[Part, ...]
    """The parts of ``theta [n]``, in order."""

    @abstractmethod
    def start(self, module: nn.Module) -> Tensor:
        """Return the ``theta [n]`` that gives the tensors of ``module``."""

    @abstractmethod
    def assemble(self, parts: Sequence[Tensor], shared: dict[str, Tensor]) -> dict[str, Tensor]:
        """Make the tensors ``names`` from the shaped parts of ``theta`` and the tensors that all rays share."""

    @abstractmethod
    def describe(self) -> str:
        """Describe the numbers in ``theta``, as a phrase after their count."""

    def options(self) -> dict[str, Any]:
        """Return the keyword arguments, as JSON, that make the same assembly."""
        return {}
