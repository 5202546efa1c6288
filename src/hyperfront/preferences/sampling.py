"""Distributions of training rays."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from hyperfront.errors import RayError, check_number
from hyperfront.errors.signatures import checked
from hyperfront.preferences.checking import as_tuples, validate
from hyperfront.preferences.grids import LARGEST, MOST_ENTRIES


class Preferences(Protocol):
    """A distribution of training rays."""

    def sample(self, count: int, m: int, generator: torch.Generator) -> Tensor:
        """Draw ``count`` rays, ``[count, m]`` float64 on the CPU."""
        ...


@dataclass(frozen=True)
class Dirichlet:
    """Rays from a Dirichlet distribution; ``alpha`` = 0.2 is the paper's choice for all its experiments.

    They are drawn in logarithms, ``Gamma(a) = Gamma(a + 1) U^(1/a)``, so that no ray is 0/0 even for a tiny ``alpha``.

    >>> g = torch.Generator().manual_seed(0)
    >>> Dirichlet(0.2).sample(3, 2, g).sum(-1)
    tensor([1., 1., 1.], dtype=torch.float64)
    """

    alpha: float | tuple[float, ...] = 0.2

    def __post_init__(self) -> None:
        if isinstance(self.alpha, list):  # as it comes back from JSON
            object.__setattr__(self, "alpha", tuple(self.alpha))
        entries = self.alpha if isinstance(self.alpha, tuple) else (self.alpha,)
        if not entries:
            raise RayError("Dirichlet needs concentrations", got=self.alpha, expected="alpha > 0, e.g. 0.2")
        for entry in entries:
            check_number("alpha of Dirichlet", entry, 0, without=0, error=RayError)

    @checked
    def sample(self, count: int, m: int, generator: torch.Generator) -> Tensor:
        check_number("number of objectives", m, 1, LARGEST, whole=True, error=RayError)
        check_number("number of rays", count, 0, MOST_ENTRIES // m, whole=True, error=RayError)
        if isinstance(self.alpha, tuple) and len(self.alpha) != m:
            raise RayError(
                "Dirichlet has the wrong number of concentrations",
                got=f"{len(self.alpha)} concentrations for {m} objectives",
                expected=f"one number or {m}",
            )
        alpha = torch.as_tensor(self.alpha, dtype=torch.float64).expand(count, m)
        log_gamma = torch._standard_gamma(alpha + 1, generator).log()
        log_uniform = torch.rand(count, m, dtype=torch.float64, generator=generator).log()
        return torch.softmax(log_gamma + log_uniform / alpha, dim=-1)


def uniform() -> Dirichlet:
    """Rays spread evenly over the simplex."""
    return Dirichlet(1.0)


@dataclass(frozen=True)
class FixedRays:
    """Rays drawn with replacement from a fixed set, such as a grid (Appendix B.2 trains on a Das-Dennis grid).

    >>> from hyperfront.preferences import das_dennis
    >>> FixedRays.of(das_dennis(2, 2)).sample(1, 2, torch.Generator().manual_seed(0)).shape
    torch.Size([1, 2])
    """

    rays: tuple[tuple[float, ...], ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "rays", as_tuples(self.rays))

    @classmethod
    @checked
    def of(cls, rays: Tensor) -> FixedRays:
        return cls(as_tuples(validate(rays, rays.shape[-1] if rays.ndim else 0)))

    @checked
    def sample(self, count: int, m: int, generator: torch.Generator) -> Tensor:
        check_number("number of rays", count, 0, MOST_ENTRIES // len(self.rays[0]), whole=True, error=RayError)
        rays = validate(torch.tensor(self.rays, dtype=torch.float64), m)
        return rays[torch.randint(len(rays), (count,), generator=generator)]


@dataclass(frozen=True)
class InTurn:
    """The rays of a fixed set in order, starting again after the last one. With as many rays per step as the set has,
    every step gets all of them. No random number is drawn, so the order of the data does not depend on the number of
    rays.

    >>> from hyperfront.preferences import das_dennis
    >>> InTurn.of(das_dennis(2, 1)).sample(3, 2, torch.Generator())
    tensor([[1., 0.],
            [0., 1.],
            [1., 0.]], dtype=torch.float64)
    """

    rays: tuple[tuple[float, ...], ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "rays", as_tuples(self.rays))

    @classmethod
    @checked
    def of(cls, rays: Tensor) -> InTurn:
        return cls(as_tuples(validate(rays, rays.shape[-1] if rays.ndim else 0)))

    @checked
    def sample(self, count: int, m: int, generator: torch.Generator) -> Tensor:
        check_number("number of rays", count, 0, MOST_ENTRIES // len(self.rays[0]), whole=True, error=RayError)
        rays = validate(torch.tensor(self.rays, dtype=torch.float64), m)
        return rays.repeat(-(-count // len(rays)), 1)[:count]
